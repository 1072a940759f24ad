"""Proof that a rule is lossless for all rows of a small vocabulary and shape, or rows for which it is not."""
