"""What Python does around the core: prepare an index, choose a way for each query, read what only Python can read.

A query flows one way, from top to bottom; nothing flows back::

      query, options                          atoms
            |                                   |
      _validate.py   checks and converts        atoms/    dense, sparse, files, functions, joined
            |                                   |
      _queries.py    one query or a batch       preparing.py   what `fit` keeps: facts, codes or coordinates
            |                                   |
            |----> direct.py   plain queries    atom_set.py    all of it together
            |                  to an array      |
            |----> sparse.py   products of a    |
            v                  sparse matrix    |
      query.py       everything else  <---------+
            |
            |   plan.py, costs.py     what each way would take on this machine
            |
            |---- codes are kept ----> core.answer: certain bounds, codes, exact rows
            |
            |---- otherwise ---------> situation.py: what is asked, and whether sampling can pay
            |                          ways.py: coordinates, cached ones, lines
            |                            rules.py     a rule and a sampler from the options
            |                            sampling.py  which coordinates, with what weights
            |                            schedule.py  how large rounds are, and when to stop
            |                            readers.py   the atoms' values there
            |                          core.loop: rounds, exact finish
            |
            |---- few rows left -----> few_rows.py: those that certain bounds leave
            |
            |---- a budget ----------> guess.py: a few coordinates of every atom, then rows
            |
            |---- hopeless ----------> full.py, rounded.py, streamed.py, passes.py, together.py: all products
            v
      _result.py     SearchResult

Each line names a module and what it takes from the modules above it; nobody takes anything from below. From outside
come `banditmips.core`, `banditmips.atoms`, threads and the version, never the public functions. The tests compare these
lines with the files::

    timing
    costs        <- timing
    schedule
    plan         <- costs, schedule
    sampling
    sampled      <- sampling
    readers      <- sampled, sampling
    lines        <- sampled
    line_reader  <- lines, sampled, sampling
    rules        <- sampling
    cached       <- rules, sampled, sampling, schedule
    known
    past
    situation    <- costs, known, lines, plan, readers, rules, sampled, sampling, schedule
    ways         <- line_reader, lines, rules, sampled, sampling, schedule, situation
    buckets      <- sampled
    guess        <- costs, plan, sampled
    atom_set
    preparing    <- atom_set, buckets
    full         <- costs
    rounded      <- costs, full
    streamed     <- costs, full, rounded
    passes       <- costs, full, rules
    code_search  <- atom_set, costs, full, known, past, plan, rules, situation
    few_rows     <- atom_set, costs, full, known, plan
    query        <- atom_set, buckets, code_search, costs, few_rows, full, guess, known, rules, sampled, situation, ways
    ranking      <- known, passes
    wanted       <- full
    pair_scores  <- full, known, ranking, rules, situation, wanted
    together     <- costs, full, known, pair_scores, passes, plan, ranking, rounded, rules, situation, wanted
    direct       <- code_search, costs, full, known, plan, rules, sampling, situation
    batch        <- code_search, costs, direct, known, plan, rounded, rules, together
    scored       <- batch, costs, full, known, passes, plan, ranking, rounded, rules, situation, together, wanted
    unsampled    <- atom_set, batch, code_search, costs, direct, few_rows, known, plan, rules
    sparse       <- atom_set, situation

timing, costs, plan
    Nanoseconds of a value, a cell, a row, measured once on each machine; and what follows for one query.
sampling, rules
    The order of the coordinates and the weights by which the first N of them speak for all; the rule that the options
    name. The random numbers belong to the coordinates and the seed, so that a query alone gives what it gives in a
    batch.
schedule, sampled
    Sizes of rounds and when sampling stops paying; a query cell by cell, and who takes part in its race.
cached
    Races on cached coordinates alone, for which nobody looks at the whole query.
readers, lines, line_reader, situation, ways
    Values at sampled coordinates from memory, a cache, a sparse matrix or a function; lines of coordinates where one
    costs as much as its neighbours (files); what a query asks, and whether sampling can pay; which of them it samples,
    and in what order.
buckets
    Bins of falling norm, the paper's Bucket_AE: bins that cannot hold a better atom are never looked at.
full, rounded, streamed, passes
    The full product, also for batches by products of bytes, or one pass for other sums than BLAS has and other types
    than it reads; of a file as it is read; and the rows that rounding cannot tell from the best.
atom_set, preparing, known
    What an index knows of its atoms, the one pass over them in which it learns that, and how the core takes it.
past
    What races of one kind of search have come to, so that those which never pay are seldom tried.
few_rows, code_search, query, direct
    Rows that certain bounds leave, where coordinates would be sampled; a race on the codes of atoms in memory, whatever
    else is asked; one query of any kind: look at it, choose a way, race, finish; the short way of a plain one.
ranking, scored
    How what is ranked follows from inner products, by factors and offsets of the atoms; and that for plain queries to
    an index or a bare array.
unsampled
    Where nothing is going to be sampled: atoms and options without what they say of sampling, so that queries take the
    ways of others.
wanted, pair_scores, together, batch
    Rows that are wanted for each of several queries, facts about these, and their exact scores. Queries that come
    together, or one alone: by all products at once, for any objective and type, with nothing in Python for each; and
    whether, and for how long, races are tried before.
sparse
    Queries to a sparse matrix by products with all that it stores, alone or together.

To check the race there is ``banditmips.reference``, Algorithm 1 line by line in plain NumPy. Where each section of the
paper went is in docs/paper.md, and how a way is chosen in docs/performance.md.
"""
