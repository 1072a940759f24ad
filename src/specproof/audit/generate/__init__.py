"""Audit of transformers' own `generate`, whichever way it speculates."""
