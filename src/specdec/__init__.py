"""specdec: draft, verify, correct. Speculative decoding with the theorem executed.

Rooms, lowest first: ``law``, ``chance``, ``verification``, ``accounting``, ``models``, ``decoding``, ``conformance``, ``book``.
"""
