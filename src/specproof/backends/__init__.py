"""Models behind the Backend protocol. BACKENDS is the one table; importing it loads no torch."""

BACKENDS: dict[str, str] = {
    "hf": "specproof.backends.hf:HFBackend",
    "table": "specproof.backends.table:TableBackend",
}
