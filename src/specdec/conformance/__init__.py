"""Is a sampler lossless? Tiers of evidence, adapters for samplers of any shape, and wrong samplers that show the tiers at work.

Begin at ``check.report`` and ``check.assert_lossless``, with an adapter of ``samplers``; ``catalogue`` has the situations.
"""
