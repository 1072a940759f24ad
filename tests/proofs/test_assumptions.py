"""What the theorems rest on: the axioms of Coq's real numbers, nothing else."""

import re

import coq
import pytest

pytestmark = pytest.mark.proofs

# Coq builds its reals from Cauchy sequences of rationals with these three; its calculus takes the fourth.
AXIOMS_OF_THE_REALS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}


def assumptions(folder, text, names):
    """The axioms that named theorems use, all together: asked once, since Coq walks through all of its reals."""
    together = f"Definition together := ({', '.join('@' + name for name in names)}, tt).\n"
    printed = coq.run(folder, f"{text}{together}Print Assumptions together.\n")
    if "Closed under the global context" in printed:
        return set()
    return set(re.findall(r"^([\w.]+)(?: :|$)", printed.split("Axioms:\n")[1], re.M))


def test_every_theorem_rests_on_the_axioms_of_the_reals_alone(tmp_path):
    names = [f"Specproof.{module}.{name}" for module, theorems in coq.theorems().items() for name in theorems]
    assert len(names) > 60
    modules = "".join(f"From Specproof Require {module}.\n" for module in coq.theorems())
    assert assumptions(tmp_path, modules, names) <= AXIOMS_OF_THE_REALS


def test_an_axiom_and_a_gap_would_be_seen(tmp_path):
    text = (
        "Axiom easy : 0 = 1.\nTheorem one : 0 = 1. Proof. exact easy. Qed.\nLemma two : 0 = 1. Admitted.\n"
        "Theorem three : 1 = 1. Proof. reflexivity. Qed.\n"
    )
    assert assumptions(tmp_path, text, ["one", "two", "three"]) == {"easy", "two"}
    assert assumptions(tmp_path, text, ["three"]) == set()
