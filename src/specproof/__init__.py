"""Speculative decoding for language models that can prove it is lossless."""

from typing import TYPE_CHECKING, Any

from specproof.errors import NumericsError, SpecproofError
from specproof.tree import Tree
from specproof.types import SamplingParams

if TYPE_CHECKING:
    from specproof.engine.engine import Engine

__all__ = ["Engine", "NumericsError", "SamplingParams", "SpecproofError", "Tree"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The engine imports torch; `import specproof` should not.
    if name == "Engine":
        from specproof.engine.engine import Engine

        return Engine
    raise AttributeError(f"module 'specproof' has no attribute {name!r}")
