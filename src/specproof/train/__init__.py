"""Training EAGLE-3 and Medusa heads: texts and features from the target itself, losses of acceptance."""
