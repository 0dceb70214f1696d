"""The paper's figures run again, as ``banditmips reproduce`` does it.

    plan        which tasks a figure consists of
      figure1, figure2, tradeoffs (3, 5, 6), figure4, figure7, figure8, figure9,
      beyond (other bounds, Theorem 1), beyond_clock, beyond_failures, beyond_sampling (Theorem 2, beta),
      beyond_sweeps (delta and epsilon alone), beyond_warm_start
        entries   the datasets with the paper's constants, the methods with their settings
        today     this package with its defaults, without an index and after fit
        kinds     data that hide what decides
        origins   where data come from: their own law, files, or a surrogate
        trials    one trial of some methods on one dataset: what most tasks are
    runner      runs tasks in processes, skips what is done, writes each row the moment it is there
    rows        the file of rows, and what tells one row from another
    record      run.json: settings, machine, versions
    published   what the authors' logs say

Every method is run several times where it is the paper's own: with the paper's settings, with its sigma read as a
variance, and with this package's defaults, without an index and after `fit`. Accuracies come from exact products of the
atoms returned. Where real data are not there, surrogates stand in, and every row made so says it.
"""
