"""Medusa: the heads, their checkpoints, and the drafter."""
