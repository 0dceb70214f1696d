"""The compiled part of a search.

Each line names a module and what it takes from the modules above it; nobody takes anything from below, and nothing
comes from outside this package but threads (`banditmips._threads`). The tests compare these lines with the files::

    kernels
    numbers
    entries
    survivors
    statistics
    records
    rotation       <- kernels, numbers
    codes          <- kernels, rotation
    rows           <- kernels
    measuring      <- codes, kernels, rotation
    certain        <- kernels, survivors
    exact          <- certain, rows
    rule           <- survivors
    loop           <- records, rule, survivors
    sample_source  <- loop, rule, statistics, survivors
    code_source    <- certain, codes, kernels, loop, numbers, survivors
    answer         <- certain, code_source, codes, loop, records, rule, survivors
"""
