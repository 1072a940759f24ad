"""The one exception users see: it names the value, the allowed ones and the fix."""

from collections.abc import Iterable


class SpecproofError(ValueError):
    """A mistake in the input; its message is one line and the command line exits with 2."""


class NumericsError(SpecproofError):
    """A model returned logits that are no distribution (NaN, or nothing finite)."""


def unknown(kind: str, name: str, allowed: Iterable[str]) -> SpecproofError:
    """The error for a name that is not in a table: lists what is.

    Args:
        kind: what the name stands for ("rule", "drafter").
        name: the value that was given.
        allowed: the names that exist.
    """
    return SpecproofError(f"unknown {kind} {name!r}; choose one of: {', '.join(sorted(allowed))}")
