"""The assumptions of a certificate in short sentences, for a report.

Each is the short form of one sentence of `reldp.runs.wording`; a sentence without a short form is shown by its first
part, so that no assumption is left out. The report has the full sentences too.

Private to the package: `short_assumptions`.

>>> short_assumptions(["The starting weights were chosen without looking at the private graph."])
['The starting weights do not depend on the private graph.']
>>> short_assumptions(["Something else is assumed: of the data (theory.md 6). It is long."])
['Something else is assumed: of the data (theory.md 6).']
"""

import re
from collections.abc import Iterable

__all__ = ["short_assumptions"]

# Beginning of a sentence of the certificate, and its short form; a group is carried over.
_SHORT = (
    (
        r"All settings .*Assumed, not recorded",
        "The settings do not depend on the private graph, and the target epsilon was fixed before its sizes were "
        "released.",
    ),
    (
        r"All settings .*epsilon of the search holds given them",
        "The settings depend on the private graph by the released bounds on its sizes alone; epsilon holds given "
        "these.",
    ),
    (
        r"All settings .*epsilon of a part of the steps follows",
        "The settings depend on the private graph by the released bounds on its sizes alone.",
    ),
    (r"All settings ", "The settings do not depend on the private graph."),
    (r"The exact numbers of (\w+) ", r"The exact numbers of {0} and relations are public."),
    (
        r"The owner declared at least ([\d,]+ \w+) and (at most [\d,]+|from [\d,]+ to [\d,]+) relations",
        r"There are at least {0} and {1} relations; this was known without looking at the data.",
    ),
    (
        r"Every relation enters a batch independently",
        "All random draws are independent, and nobody can break AES-256.",
    ),
    (r"The starting weights ", "The starting weights do not depend on the private graph."),
    (
        r"The column of owners ",
        "The column of owners is right, and texts and features of an entity depend on its owner alone.",
    ),
    (r"The text and features ", "The text and features of an entity depend on that entity alone."),
    (r"The key was secret", "The key was secret until it was destroyed."),
    (
        r"Each tuple has one relation of the batch",
        "Negatives are the endpoints of other relations, drawn without replacement from all of them.",
    ),
    (
        r"Negatives come from the unprotected (\w+)",
        r"Negatives come from unprotected {0}, whose number is not protected.",
    ),
    (
        r"Negatives come from a public pool of ([\d,]+)",
        r"Negatives come from a public pool of {0} entities that does not depend on the private graph.",
    ),
    (
        r"(Every relation has one of [\d,]+ types|Relations have one type)\. The list of types was declared",
        r"{0}, from a list that does not depend on the private graph.",
    ),
    (
        r"(Every relation has one of [\d,]+ types|Relations have one type)\. The list",
        r"{0}, from a list that was taken from the data and is assumed to be public.",
    ),
    (
        r"About ([\d.e-]+) % of all (\w+) were held out",
        r"A keyed hash of ids and a public seed decided which {1} were held out (about {0} %).",
    ),
    (r"Noise came from the Philox generator", "Nobody can predict the Philox generator."),
    (
        r"The contribution of a tuple ",
        "The contribution of a tuple depends on that tuple alone, to the bit; this was checked, not proven.",
    ),
    (
        r"The encoder's code, (\S+), is not part",
        r"The encoder's code, {0}, computes an embedding from the entity's own inputs alone; this was checked, not "
        "proven.",
    ),
    (
        r"The loss, (\S+), is not part",
        r"The loss, {0}, computes a value from one tuple alone; this was checked, not proven.",
    ),
    (
        r"The training loop is not part",
        "The training loop, which is not part of reldp, uses noisy gradients and public values alone.",
    ),
    (
        r"Training was ended after ([\d,]+ of [\d,]+) planned steps\. The decision",
        r"Training ended after {0} planned steps by a decision that saw noisy weights and no sensitive values.",
    ),
    (
        r"Training was ended after ([\d,]+ of [\d,]+) planned steps\. .*Time decided.*Private sizes: ",
        "Time ended training after {0} planned steps, and this number shows nothing about the data. Epsilon holds "
        "given the released bounds on sizes.",
    ),
    (
        r"Training was ended after ([\d,]+ of [\d,]+) planned steps\. .*was fixed.*Private sizes: ",
        "Training ended after {0} planned steps, and this number does not depend on the private data. Epsilon holds "
        "given the released bounds on sizes.",
    ),
    (
        r"Training was ended after ([\d,]+ of [\d,]+) planned steps\. .*Time decided",
        r"Time ended training after {0} planned steps, and this number shows nothing about the data.",
    ),
    (
        r"Training was ended after ([\d,]+ of [\d,]+) planned steps\. .*was fixed",
        r"Training ended after {0} planned steps, and this number does not depend on the private data.",
    ),
    (
        r"The released weights are those after step ([\d,]*\d)",
        r"The weights after step {0} were chosen by a public graph that does not depend on the private one.",
    ),
    (
        r"This run is the best of ([\d,]+) runs.*holds given the released bounds",
        r"This run is the best of {0} by a score on public data. Epsilon holds given the released bounds on sizes.",
    ),
    (
        r"This run is the best, by a score.*holds given the released bounds",
        "This run is the best of a secret number of runs by a public score; nothing else is released. Epsilon holds "
        "given the bounds on sizes.",
    ),
    (
        r"This run is the best of ([\d,]+) runs",
        r"This run is the best of {0} by a score on public data.",
    ),
    (
        r"This run is the best, by a score",
        "This run is the best of a secret number of runs by a score on public data, and nothing else about them is "
        "released.",
    ),
    (
        r"Epsilon rests on a published claim",
        "Epsilon rests on a claim that is false in the worst case. Do not rely on it.",
    ),
)


def short_assumptions(sentences: Iterable[str]) -> list[str]:
    """Return one short sentence for each assumption of a certificate."""
    return [_short(sentence) for sentence in sentences]


def _short(sentence: str) -> str:
    for pattern, words in _SHORT:
        match = re.match(pattern, sentence)
        if match:
            return words.format(*match.groups())
    return re.split(r"(?<=\.) (?=[A-Z])", sentence, maxsplit=1)[0]
