"""The race: how one query is answered without reading most of the atoms.

Every atom's score is a sum over coordinates. A round reads the same few cells of every atom still in the race,
estimates the scores, and drops the atoms that k others beat for certain, up to a share of delta. The rounds
themselves are in `banditmips.core`; here is what surrounds them: plans and their costs, samples, readers, bins, and
what `fit` prepares.

Each line names a module and what it takes from the modules above it; nobody takes anything from below. From outside
come `banditmips.core`, `banditmips.atoms`, threads and the version, never the public functions. The tests compare
these lines with the files::

    sampling
    schedule
    costs
    full
    atom_set
    plan         <- costs, schedule
    rules        <- sampling
    sampled      <- sampling
    lines        <- sampled
    readers      <- sampling
    line_reader  <- lines, readers, sampling
    buckets      <- sampled
    parts        <- sampled, sampling, schedule
    ways         <- line_reader, lines, readers, rules, sampled, sampling, schedule
    query        <- atom_set, buckets, costs, full, plan, rules, sampled, schedule, ways
    preparing    <- atom_set, buckets

To check the race there is ``banditmips.reference``: Algorithm 1 in plain NumPy, and the same with every rule, atom by
atom.
"""
