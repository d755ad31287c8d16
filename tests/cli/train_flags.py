"""Flags of a small training without questions, and the lines that commands print."""

SIZES = ["--num-negatives", "3", "--num-steps", "4", "--expected-batch-size", "20"]


PRIVACY = ["--noise-multiplier", "3", "--delta", "1e-4"]


EXACT = ["--sizes", "public"]  # a graph of 300 entities is too small for private sizes


FLAGS = ["--max-degree", "4", "--promise-degrees", *EXACT, *SIZES, *PRIVACY]


def lines(text):
    return [line for line in text.splitlines() if line]


def errors(text):
    """Lines that are not the note about what is trained."""
    return [line for line in lines(text) if not line.startswith("reldp: training ")]
