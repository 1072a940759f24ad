"""Training EAGLE-3 heads: texts from the target itself, features streamed from it, losses of acceptance."""
