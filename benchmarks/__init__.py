"""Measurements: what things cost and what they are worth. Run from the repository's root."""
