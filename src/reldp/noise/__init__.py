"""Random draws and Gaussian noise from keyed cryptographic streams; needs no torch.

Public: ``Streams``, ``Stream``, ``new_key`` (reldp.noise.streams); ``GaussianNoise``,
``add_noise`` (reldp.noise.gaussian); ``GRID`` (reldp.noise.rounded). ``rounded`` and ``refine`` are
the two halves of the secure draw (theory.md 6).

>>> len(new_key())
32
"""

from reldp.noise.gaussian import GaussianNoise, add_noise
from reldp.noise.rounded import GRID
from reldp.noise.streams import Stream, Streams, new_key

__all__ = [
    "GRID",
    "GaussianNoise",
    "Stream",
    "Streams",
    "add_noise",
    "new_key",
]
