"""For tests of specproof and of what others build on it: tiny models and one conformance call a protocol."""
