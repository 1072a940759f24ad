"""Verifiers of other packages behind one signature: ADAPTORS, the one table. Importing it loads none of them.

An adaptor imports the installed package when it is built and hands it coins that the audit controls; it holds
no copy of anybody's code.
"""

from __future__ import annotations

from importlib import import_module, metadata
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from specproof.errors import SpecproofError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from specproof.audit.adaptors.coins import Coins


class Adaptor(Protocol):
    """A foreign verifier of chains.

    Attributes:
        name: the key in ADAPTORS.
        package: what is installed with pip.
        version: of the package that is installed.
    """

    name: str
    package: str
    version: str

    def verify(self, target: Tensor, drawn: Tensor, tokens: Tensor, coins: Coins) -> list[int]:
        """The tokens that one verification commits: the accepted ones and the extra one.

        Args:
            target: [N+1, V] float32, target rows.
            drawn: [N, V] float32, rows that the tokens were drawn from; one-hot for a point draft.
            tokens: [N] long, N >= 1.
            coins: its only source of randomness.
        """


ADAPTORS: dict[str, str] = {
    "transformers": "specproof.audit.adaptors.transformers:Transformers",
    "economize": "specproof.audit.adaptors.economize:Economize",
    "flashspec": "specproof.audit.adaptors.flashspec:Flashspec",
}


def load(name: str) -> Adaptor:
    """The adaptor of that name, bound to the installed package.

    Raises:
        SpecproofError: no such adaptor, or its package is missing or of an unknown shape.
    """
    if name not in ADAPTORS:
        raise unknown("adaptor", name, ADAPTORS)
    module, _, attribute = ADAPTORS[name].partition(":")
    adaptor: Adaptor = getattr(import_module(module), attribute)()
    return adaptor


def installed(package: str, module: str) -> tuple[ModuleType, str]:
    """A module of an installed package, and the package's version.

    Raises:
        SpecproofError: the package is not installed, or this version has no such module.
    """
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        fix = "pip install 'specproof[peers]'"
        raise SpecproofError(f"the package {package!r} is not installed; to audit it: {fix}") from None
    try:
        return import_module(module), version
    except ModuleNotFoundError as error:
        raise SpecproofError(f"{package} {version} cannot be audited: {error}; see docs/adaptors.md") from error
