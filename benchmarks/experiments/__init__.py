"""The harness behind the cross-domain table, the ablations and the frontier.

    cells      one experiment as a frozen value: graphs, encoder, rule, epsilon, sizes, levers, seed
    inputs     graphs and token tables as plain arrays, prepared once; read without pyarrow
    weights    model folders cut into parts small enough to carry to another machine
    levels     the noise of every cell, calibrated beforehand and kept as JSON
    training   one cell, by the product's own sampler, rules, engine, noise and optimizers
    levers     what training may change without changing the promise
    runner     many cells in worker processes, until a deadline; what is done is not done again
    store      results as committed JSON
    tables     docs/benchmarks.md and its figures, from the store

Command line: ``python -m benchmarks.experiments --help``.
"""
