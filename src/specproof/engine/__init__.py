"""The engine: batch, loop, statistics and text around the four contracts."""
