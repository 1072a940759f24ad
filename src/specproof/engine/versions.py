"""Which software a figure was made with."""

import platform


def versions() -> dict[str, str]:
    """Of this package and of what its figures depend on."""
    import torch
    import transformers

    from specproof import __version__

    return {
        "specproof": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
