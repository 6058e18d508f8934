"""Is a sampler lossless? Tiers of evidence, adapters for samplers of any shape, and wrong samplers that show the tiers at work.

A test of your own: ``assert_lossless(rule("mine", verify))``. ``report`` says all that was found; ``catalogue`` has the
situations.
"""

from specdec.conformance.check import assert_lossless, report
from specdec.conformance.samplers import black_box, loop, rule, texts

__all__ = ["assert_lossless", "black_box", "loop", "report", "rule", "texts"]
