"""Edits a run in every way we could think of, and checks that `reldp.verify` refuses each of them.

    python -m tests.reporting.fuzzing --edits 100000 --state fuzzing.json

*Equivalent* edits, and no others, may pass: those that leave every byte of every published file as it
was, that remove what a published copy may lack (report.html, sensitive.json, the checkpoint, the
sensitive files), or that change the two numbers for epsilon in certificate.json by at most a
millionth of their value and nothing else. Every other edit must be refused with an error of reldp's
own that names a file. A traceback, a wait of ten seconds, or a pass is a failure.

Two runs are made, one with a public and one with a full report; a third one lends its files.
"""
