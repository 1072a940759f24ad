"""Audit of an engine from the tokens that came out, where the rows that they should follow are known."""
