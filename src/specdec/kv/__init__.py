"""Storage of KV caches: what a model's layers keep, how engines allocate it, and what fits into a memory budget.

Sizes are exact integers of bytes. ``shape`` says what layers keep, ``config`` reads a Hugging Face ``config.json``,
``engines`` hold the allocation rules, ``plan`` solves for what fits. Nothing here runs a model.
"""
