"""Coins and Gaussian noise from keyed cryptographic streams; needs no torch.

Public: ``Streams``, ``Stream``, ``new_key`` (reldp.noise.streams); ``GaussianNoise``,
``add_noise``, ``rounding_slack``, ``fast_seed`` (reldp.noise.gaussian). ``rounded`` and ``refine``
are the two halves of the secure draw (theory.md section 6).

>>> len(new_key())
32
"""

from reldp.noise.gaussian import GaussianNoise, add_noise, fast_seed, rounding_slack
from reldp.noise.streams import Stream, Streams, new_key

__all__ = [
    "GaussianNoise",
    "Stream",
    "Streams",
    "add_noise",
    "fast_seed",
    "new_key",
    "rounding_slack",
]
