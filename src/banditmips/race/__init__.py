"""The race: how one query is answered without reading most of the atoms.

Every atom's score is a sum over coordinates. A round reads the same few sampled coordinates of every atom still in the
race, estimates the scores, and drops the atoms that k others beat for certain, up to a share of delta. Those that are
left get more coordinates in the next round. The race ends when k atoms are left, when nobody left out can matter
(epsilon), when the budget is used up, or when computing the survivors exactly is cheaper than to go on sampling.

A query flows one way, from top to bottom; nothing flows back::

      query, options                                         atoms
            |                                                  |
     _validate.py   checks and converts                 atoms/  stores: dense, sparse,
            |                                                  |        functions, joined
            |                                                  |        facts.py: norms, range (fit)
            v                                                  |        cache.py: warm start (fit)
     _search.py     one query or a batch                       |
            |-----> express.py   the common case in one <------|
            |                    compiled call, or not at all  |
            v                                                  |
     _query.py      everything else: a query's support,        |
            |       its candidates, its contest                |
     setup.py       options -> a sampler and a bound           |
            |                                                  |
            |    buckets.py   bins by norm, one race each      |
            |        |        (only with bucket_size)          |
            v        v                                         v
     elimination.py   the round loop  <---------------- atoms/reading.py   values of some rows
            |                                                              at some coordinates
            |   each round:
            |     planner.py    how many coordinates next, or finish exactly?
            |     sampling.py   which ones, and how do they speak for all?
            |     kernels.py    estimates and variances of the survivors
            |     bounds.py     who is beaten? radii; delta is split here
            v
     finish           exact scores of the survivors, or of the k returned (rescore)
            |
            v
     _result.py       SearchResult

What each file here decides, and nothing else does:

sampling
    The order of the coordinates, and with what weights the first N of them estimate the whole sum. The random
    numbers belong to the coordinates and the seed, so a query alone gives what it gives in a batch. Rounds nest.
bounds
    What a sample proves: the radius of each estimate and which atoms are beaten; how delta is split over atoms or
    pairs and over rounds. docs/guarantees.md says which bound rests on which theorem.
elimination
    The loop itself: Algorithm 1 of the paper, with geometric rounds, k, epsilon and a budget. It sees arrays and
    protocols, never a user's input.
planner, costs
    The sizes of the rounds, and when sampling stops paying: what reading and multiplying cost on this machine.
buckets
    Bins of falling norm, the paper's Bucket_AE: bins that cannot hold a better atom are never looked at.
setup
    The one place that turns options into objects of this package.
kernels
    The hot loops: arrays in, arrays out; no policy, no defaults, no globals.
express, dash, compiled, gathered
    The same race in one compiled call, for the common case: the paired bound on inner products of dense atoms in
    memory. ``express`` decides whether a query is of that kind and hands back what it cannot finish. ``dash`` takes a
    query over what an index has prepared: ``screen`` drops atoms for certain, ``heads`` reads where the query stands
    out, ``compiled`` races on cached coordinates, ``finish`` computes the survivors. Without an index, ``sprint`` takes
    the same steps and ``gathered`` races on coordinates read from the atoms. ``rounds`` and ``block_rounds`` play one
    round.

To check the race there is ``banditmips.reference``, Algorithm 1 line by line in plain NumPy. Where each section of the
paper went is in docs/paper.md.
"""
