"""Flags of a small training without questions, and the lines that commands print."""

SIZES = ["--num-negatives", "3", "--num-steps", "4", "--expected-batch-size", "20"]


PRIVACY = ["--noise-multiplier", "3", "--delta", "1e-4"]


EXACT = ["--sizes", "public"]  # a graph of 300 entities is too small for private sizes


FLAGS = ["--max-degree", "4", "--promise-degrees", *EXACT, *SIZES, *PRIVACY]


PHASES = [
    "reldp: reading the graph and the model.",
    "reldp: 4 steps are planned; checking the encoder.",
    "reldp: the encoder is checked; the steps begin.",
    "reldp: the model and the certificate are written.",
]
"""What a log says of the phases of a run with these flags."""


def lines(text):
    """Lines that are not about a phase."""
    return [line for line in text.splitlines() if line and line not in PHASES]


def errors(text):
    """Lines that are neither about a phase nor the note about what is trained."""
    return [line for line in lines(text) if not line.startswith("reldp: training ")]
