"""Rollouts for reinforcement learning: prompts in, trajectories out, new weights between them."""
