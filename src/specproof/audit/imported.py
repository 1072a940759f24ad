"""Code of the user's own, named "module:attribute" and found from the current folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from specproof.errors import SpecproofError


def imported(path: str, form: str = "MODULE:FUNCTION") -> Callable[..., Any]:
    """The function or class of that name.

    Raises:
        SpecproofError: no such module, or nothing in it that can be called; `form` says how a name is written.
    """
    module, _, name = path.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise SpecproofError(f"no module {module!r} in {Path.cwd()} or installed: give {form}") from None
    finally:
        sys.path.remove(str(Path.cwd()))
    if not callable(found):
        what = form.partition(":")[2].lower()
        raise SpecproofError(f"module {module!r} has no {what} {name!r}: give {form}")
    called: Callable[..., Any] = found
    return called
