"""Audit of a server from outside, over an OpenAI-compatible API: what comes out with speculation and without."""
