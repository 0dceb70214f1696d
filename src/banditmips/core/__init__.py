"""The compiled half of a search: one state, one source of cells, one rule, one loop.

A *cell* is one number that is read of every atom, with its counterpart of the query, whose products estimate the score:
a coordinate of a rotated code, a sampled coordinate, or a line of coordinates. A *source* fills the next cells of all
survivors and says what they estimate. The *rule* says who is beaten, and is the only place where delta is split. The
*loop* plays rounds until the answer is clear: until k are left, until all cells are read, until nobody left out can
matter (epsilon), until the budget is used up, or until exact scores are the cheaper way to go on. Every option goes
through this loop, and a trace is a record of what it did.

A query of a fitted index takes these steps (`answer`):

1. *certain bounds*: means, norms and a few axes leave those that can win at all, without a multiply;
2. *leaders*: where it is cheap, the exact scores of the k most promising raise the bar for the others;
3. *codes*: the query is rotated and rounded, and rounds read more and more bits of the survivors;
4. *exact rows* of those that are left, the most promising first, as long as they can win.

Each line names a module and what it takes from the modules above it; nobody takes anything from below. From outside
this package come threads alone (`banditmips._threads`). The tests compare these lines with the files::

    kernels
    factors
    numbers
    quantiles
    maps
    reads
    entries       <- kernels
    statistics    <- kernels
    records
    survivors
    source        <- survivors
    rotation      <- kernels, numbers
    codes         <- entries, kernels, rotation
    measuring     <- codes, kernels, rotation
    places        <- kernels
    pairs         <- kernels, places
    rows          <- kernels, pairs, places
    passes        <- entries, kernels, places, rows
    near_best     <- kernels, places, rows
    many_products <- kernels, near_best, passes, places, rows
    byte_products <- kernels, near_best, numbers, places, rows
    certain       <- kernels, survivors
    exact         <- certain, rows
    rule          <- kernels, quantiles, source, survivors
    outcome       <- exact, records, survivors
    loop          <- exact, outcome, records, rule, source, survivors
    sample_source <- certain, source, statistics, survivors
    cached_source <- kernels, sample_source, statistics, survivors
    code_source   <- certain, codes, kernels, numbers, source, survivors
    plain         <- maps
    products      <- certain, kernels, near_best, outcome, places, plain, rows
    answer        <- certain, code_source, codes, exact, loop, outcome, plain, products, records, rows, rule, survivors
    batch         <- certain, kernels, many_products, near_best, pairs, passes, plain, products, rows
    scored        <- certain, kernels, maps, near_best, passes, plain, products, rows
    scored_batch  <- kernels, near_best, pairs, plain, products, rows, scored
    sparse_products <- kernels
    sparse_batch  <- kernels, sparse_products, survivors

kernels, entries, numbers
    The innermost sums in C (``c/kernels.h`` says what each does; the best for the machine is chosen when it runs), the
    pass of `fit` over entries, and random numbers that belong to coordinates and the seed.
survivors, source, records
    Who is still in the race, with estimates and radii; what a race asks of whoever gives it cells; what it writes down.
certain, rule, quantiles
    What is known for certain, and what up to delta. docs/guarantees.md has the theorems and what they leave open.
rotation, codes, code_source
    The random rotation, the codes that an index keeps, and rounds on them.
statistics, sample_source, cached_source
    Estimates and variances of sampled cells, and rounds on them; whoever knows where the atoms are fills in the values,
    or an index has cached them.
places, pairs, rows, passes, exact
    Entries of atoms from some place on; exact sums of some atoms with some queries, who share what is read; atoms in
    memory, of any dtype and order; rough sums of all of them in one reading; exact scores.
many_products
    Products of all atoms with many queries, which are laid out beside each other for it, or some columns of atoms are.
byte_products
    Estimates of all scores of a batch's queries from atoms and queries that are rounded to bytes.
factors
    How scores follow from products with atoms of which rough sums are known.
near_best, batch
    Who is among the best by products, or too close to tell by rounded ones; exact sums and the best of each of many
    queries, with nothing in Python for each.
loop, outcome, answer, products, scored, scored_batch, plain
    The rounds, and what comes of them; the four steps above; the best of all products, and of what is made of them; all
    for plain queries with nothing around them, in one call from the user's arrays to the result.
sparse_products, sparse_batch
    Products of a sparse matrix with one query, and with many at once; places are checked where they are used.
maps, reads
    Files that are mapped and become shorter while they are read; many short reads of a file at once.
measuring
    Pieces of a race on their own, for the cost model of ``banditmips.race.costs``.

Everything here takes what has been checked before (``banditmips._validate``), and releases the GIL where it takes time.
"""
