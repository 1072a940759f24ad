"""The lattice of sampling parameters over the tiny vocabulary, as tests use it."""

from specproof.audit.parameters import lattice
from specproof.audit.parameters.lattice import END, VALUES, VOCABULARY, params_of

__all__ = ["CHOICES", "END", "VALUES", "VOCABULARY", "covering", "pairs", "params_of", "shown"]

CHOICES = lattice.choices(VALUES)


def pairs():
    """Every pair of values of two parameters."""
    return lattice.pairs(VALUES)


def covering():
    """Settings in which every pair of values occurs."""
    return lattice.covering(VALUES)


def shown(values):
    """A short name for a test's id."""
    return "-".join(values)
