"""The device that encoders are trained and evaluated on where none is named: the GPU if there is one.

Inside the package: `default_device`.

>>> default_device() in ("cpu", "cuda")
True
"""

__all__ = ["default_device"]


def default_device() -> str:
    """Return ``"cuda"`` if torch can use a GPU here, else ``"cpu"``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
