"""Proof that a rule is lossless for all rows of a small vocabulary and shape, or rows for which it is not."""

from specproof.audit.proof.named import parse_shape, prove_rule
from specproof.audit.proof.refute import Counterexample
from specproof.audit.proof.result import Outcome, ProofResult
from specproof.audit.proof.run import prove
from specproof.audit.proof.setting import Setting

__all__ = ["Counterexample", "Outcome", "ProofResult", "Setting", "parse_shape", "prove", "prove_rule"]
