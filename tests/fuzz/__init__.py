"""Fuzzing of what reads input, and kills of what writes: see `scripts/fuzz` and `scripts/soak`."""
