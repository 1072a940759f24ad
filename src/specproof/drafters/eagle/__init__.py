"""The EAGLE-3 head: its module, its checkpoints, and the head as a backend that a drafter grows trees with."""
