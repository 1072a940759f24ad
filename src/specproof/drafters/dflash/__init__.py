"""DFlash: the block-diffusion head, its checkpoints, and the drafter."""
