"""search(): validate -> plan -> race -> finish -> SearchResult."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditmips._direct import bare_directly, plain_kinds
from banditmips._ends import at_ends
from banditmips._options import BoundName, Ends, Minimise, Objective, Sampling, Sigma, suggests_names
from banditmips._padding import widened
from banditmips._queries import also_read, run_queries
from banditmips._result import SearchResult
from banditmips._validate import Options, as_store, n_jobs_or_one, seed_or_fresh
from banditmips.atoms import AtomStore, check_maps
from banditmips.atoms.metering import metered
from banditmips.core.plain import answer_plainly
from banditmips.race.atom_set import AtomSet
from banditmips.race.situation import WITHOUT_LENGTHS
from banditmips.race.unsampled import plain_for_products

__all__ = ["search"]

_OF_AN_INDEX = "it belongs to an index (BanditMIPS)"


@suggests_names("search", dict.fromkeys(("bucket_size", "layout", "max_extra_memory", "validate"), _OF_AN_INDEX))
def search(
    atoms: Any,
    queries: ArrayLike,
    k: int = 1,
    *,
    delta: float = 1e-3,
    epsilon: float = 0.0,
    objective: Objective = "inner_product",
    sampling: Sampling = "auto",
    beta: float = 0.5,
    bound: BoundName = "auto",
    sigma: Sigma = None,
    value_range: tuple[float, float] | None = None,
    replacement: bool = False,
    absolute: bool = False,
    ends: Ends = "largest",
    minimise: Minimise = "time",
    budget: int | None = None,
    rescore: bool = True,
    mask: ArrayLike | None = None,
    seed: int | None = 0,
    n_jobs: int | None = 1,
    trace: bool = False,
    progress: bool = False,
) -> SearchResult:
    """Find the k atoms with the largest inner product with each query, by sampling coordinates adaptively.

    Returns the right atoms with probability at least ``1 - delta`` for each query, in the sense of the chosen bound
    (see docs/guarantees.md): ``paired``, the default without an index, is asymptotic; the others rest on a theorem
    whenever what you told them is true (for ``hoeffding_serfling`` that is the range, or a ``sigma`` of at least half
    of it). Failures of different queries may be correlated, because they share the seed's random numbers; for all m
    queries at once, divide delta by m.

    Parameters
    ----------
    atoms : array of shape (n, d)
        One atom in each row: any real dtype and memory order, a memory map, a SciPy sparse matrix, a PyTorch tensor on
        the CPU, anything array-like or with DLPack, an `AtomStore` of your own. Or atoms on disk: a path or URL (see
        `open_atoms`), an HDF5 dataset, a Zarr array, an Arrow table or column. Never copied whole, never changed.
    queries : array of shape (d,) or (m, d)
        One query, or a batch.
    k : int
        How many atoms to find. If there are fewer, the result is padded with index -1 and score -inf (inf at the
        smallest end).
    delta : float in [0, 1)
        Failure probability allowed for each query. 0 computes every product exactly.
    epsilon : float
        Shortfall allowed, in units of the score: stop once no atom can beat a returned one by more than that.
    objective : {"inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"}
        What to maximise; the correlation is the cosine of vectors less their means. Both need the atoms' norms: a
        search without an index reads all atoms for them.
    sampling : {"auto", "weighted", "optimal", "uniform", "sorted"}
        How to choose coordinates: ``weighted`` by ``|q|**(2*beta)``; ``optimal`` by Theorem 2 of the paper (needs an
        index); ``uniform``; ``sorted`` by falling |q|, which is the paper's BanditMIPS-alpha and promises nothing.
        ``auto`` is ``weighted`` for ``bound="paired"``, unless cached coordinates make ``uniform`` faster, and
        ``uniform`` for the other bounds. Coordinates where the query is 0 are never sampled for products.
    beta : float
        Exponent of the weights. Above 0.5, ``paired`` lets no weight fall below a quarter of what 0.5 gives.
    bound : {"auto", "codes", "paired", "hoeffding", "hoeffding_serfling", "bernstein"}
        Confidence bound by which atoms are dropped. ``auto`` takes the best one that needs to be told nothing.
    sigma : float, "estimate" or None
        For the Hoeffding bounds: sub-Gaussian parameter of one sampled term: ``q[J]*v[J]`` for uniform sampling,
        ``q[J]*v[J]/(d*w[J])`` with weights, over the norms for the cosine. ``"estimate"`` takes the
        largest sample deviation of the first round, which no theorem covers. None derives it from the range.
    value_range : (low, high), optional
        For the Hoeffding and Bernstein bounds: interval that holds every entry of the atoms. An index knows it.
    replacement : bool
        Draw coordinates with replacement, as in the paper's analysis.
    absolute : bool
        Rank by the size of the score, whatever its sign.
    ends : {"largest", "smallest", "both"}
        Which scores to find. ``smallest`` finds the k smallest, the smallest first. ``both`` finds the k largest, and
        beside them ``result.smallest``, a result of its own; delta, epsilon and budget hold for either end. Of
        inner products, cosines and correlations.
    minimise : {"time", "multiplies"}
        Take the way that is fastest on this machine, or the one with the fewest multiplies.
    budget : int, optional
        Multiplies allowed for each query (at least one for each atom). When they are used up, the best guess is
        returned with ``stop_reason="budget"`` and honest intervals.
    rescore : bool
        Compute the exact scores of the returned atoms (k*d multiplies, counted). If False, scores that the search did
        not have to compute are estimates, with their intervals.
    mask : bool array of shape (n,) or (m, n), optional
        True excludes an atom.
    seed : int or None
        The same seed gives the same answer at any batch size or number of threads. None draws a fresh one, which the
        result names.
    n_jobs : int or None
        Threads, -1 for one for each core, None for one: over the queries of a batch, or over the atoms where one query
        has many of them to read or to multiply. The answer is the same at any number.
    trace : bool
        Record every round in ``result.trace``.
    progress : bool
        Show a progress bar: over the queries, and over the bytes that `fit` reads.

    Returns
    -------
    SearchResult
        Unpacks as ``indices, scores``.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(50, 1)) + rng.normal(size=(50, 20_000))
    >>> query = 1 + rng.normal(size=20_000)
    >>> result = bm.search(atoms, query, k=2, minimise="multiplies")
    >>> indices, scores = result
    >>> bool((indices == np.argsort(-(atoms @ query))[:2]).all())
    True
    >>> result.n_multiplies < atoms.size / 4
    True
    """
    asked = (
        delta,
        epsilon,
        objective,
        sampling,
        beta,
        bound,
        sigma,
        value_range,
        replacement,
        absolute,
        ends,
        minimise,
        budget,
        rescore,
        seed_or_fresh(seed),
        n_jobs_or_one(n_jobs),
        trace,
        progress,
    )
    # In a small search all that follows would take most of the time.
    plain = answer_plainly(plain_kinds, atoms, queries, k, asked, mask)
    if plain is not None:
        found: SearchResult = plain
        return found
    options = _options(*asked)
    # What is read is checked, and nothing else, unless norms are needed.
    checked = objective in WITHOUT_LENGTHS
    store, n_bytes = _opened(atoms)

    def find(queries: ArrayLike, wanted: int, mask: ArrayLike | None) -> SearchResult:
        atom_set, acting = plain_for_products(AtomSet(store), queries, wanted, options)
        found = bare_directly(store, queries, wanted, acting, asked, mask)
        return run_queries(atom_set, queries, wanted, acting, mask) if found is None else found

    found = at_ends(find, store.shape, queries, k, mask, options, partial(check_maps, store))
    return widened(also_read(found, n_bytes).labelled(options.seed, store.shape, checked=checked), k, options.ends)


def _opened(atoms: Any) -> tuple[AtomStore, int]:
    """The atoms, and how many bytes were read to open them."""
    if isinstance(atoms, np.ndarray):
        return as_store(atoms), 0
    with metered() as opening:
        store = as_store(atoms)
    return store, opening.bytes_read


def _options(*values: Any) -> Options:
    """Check options, or find the same ones checked before: in a small search the checks would take most of the time."""
    try:
        return _checked_options(tuple(map(type, values)), values)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return Options(*values)


@lru_cache(maxsize=64)
def _checked_options(types: tuple[type, ...], values: tuple[Any, ...]) -> Options:
    """Options by their values and types: True, 1 and 1.0 are equal, but not all of them are allowed everywhere."""
    return Options(*values)
