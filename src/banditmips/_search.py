"""search(): validate -> plan -> race -> finish -> SearchResult."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._direct import bare_directly, batch_directly
from banditmips._ends import at_ends, negative
from banditmips._options import BoundName, Ends, Minimise, Objective, Sampling, Sigma, suggests_names
from banditmips._result import SearchResult, StopReason
from banditmips._threads import helped_by, map_in_order
from banditmips._validate import (
    Options,
    as_finite,
    as_mask,
    as_queries,
    as_store,
    check_k,
    n_jobs_or_one,
    seed_or_fresh,
)
from banditmips.atoms import AtomStore, DenseStore, PartStore, SparseStore, check_maps
from banditmips.atoms.metering import metered
from banditmips.race.atom_set import AtomSet, check_range, check_seed
from banditmips.race.direct import plain_row
from banditmips.race.full import can_stream, can_use_blas, products_with_all, streamed_products
from banditmips.race.plan import TOGETHER
from banditmips.race.query import Query
from banditmips.race.rules import check_needs
from banditmips.race.sparse import SparseAnswer, SparseSearch, products_by_row

__all__ = ["check_together", "empty_batch", "explain_query", "finish_by_products", "run_queries", "search"]

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
    seed = seed_or_fresh(seed)
    options = _options(
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
        seed,
        n_jobs_or_one(n_jobs),
        trace,
        progress,
    )
    # What is read is checked, and nothing else, unless norms are needed.
    checked = objective in ("cosine", "correlation")
    store, n_bytes = _opened(atoms)

    def find(queries: ArrayLike, mask: ArrayLike | None) -> SearchResult:
        found = bare_directly(store, queries, k, options) if mask is None else None
        return run_queries(AtomSet(store), queries, k, options, mask) if found is None else found

    try:
        found = at_ends(find, store.shape, queries, mask, options.ends)
    finally:
        check_maps(store)  # comes before any other error, which may follow from what was missing
    return _also_read(found, n_bytes).labelled(options.seed, store.shape, checked=checked)


def _opened(atoms: Any) -> tuple[AtomStore, int]:
    """The atoms, and how many bytes were read to open them."""
    if isinstance(atoms, np.ndarray):
        return as_store(atoms), 0
    with metered() as opening:
        store = as_store(atoms)
    return store, opening.bytes_read


def _also_read(result: SearchResult, n_bytes: int) -> SearchResult:
    """Count bytes that were read for all queries together with those of the first."""
    if n_bytes == 0 or result.indices.shape[0] == 0:
        return result
    if result.indices.ndim == 1:
        return replace(result, bytes_read=result.bytes_read + n_bytes)
    return replace(result, bytes_read=result.bytes_read + n_bytes * (np.arange(len(result.indices)) == 0))


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


def run_queries(
    atom_set: AtomSet, queries: ArrayLike, k: int, options: Options, mask: ArrayLike | None
) -> SearchResult:
    """Answer one query or a batch, in threads if asked for."""
    if options.n_jobs == 1:
        return _run_queries(atom_set, queries, k, options, mask)
    # Threads share the queries of a batch, or the work of a single one.
    with helped_by(options.n_jobs):
        return _run_queries(atom_set, queries, k, options, mask)


def _run_queries(
    atom_set: AtomSet, queries: ArrayLike, k: int, options: Options, mask: ArrayLike | None
) -> SearchResult:
    k = check_k(k)
    n, d = atom_set.store.shape
    rows, single = as_queries(queries, d)
    masks = as_mask(mask, n, len(rows), single)
    if options.budget is not None and options.budget < n:
        raise ValueError(f"budget must allow at least one multiply for each of the {n} atoms, got {options.budget}")
    check_together(atom_set, options)
    short = batch_directly(atom_set, queries, k, options) if masks is None else None
    if short is not None:
        return short
    if options.objective in ("cosine", "correlation") and atom_set.facts is None:
        from banditmips.atoms.facts import collect_facts

        with metered() as norms:
            known = replace(
                atom_set, facts=collect_facts(atom_set.store, n_jobs=options.n_jobs), unchecked=False, prepared={}
            )
        return _also_read(run_queries(known, queries, k, options, mask), norms.bytes_read)

    sparse = SparseSearch(atom_set, k, options)
    if sparse.serves and len(rows):
        found = _by_sparse_products(sparse, rows, single, masks)
        if found is not None:
            results = [_of_sparse(answer, k, checked=not atom_set.unchecked) for answer in found]
            return results[0] if single else SearchResult.stack(results)

    def begin(i: int) -> _Begun:
        query = as_finite(rows[i], "" if single else f"row {i}, ")
        return _Begun(Query(atom_set, query, k, options, None if masks is None else masks[i]))

    if single:
        begun = [begin(0)]
    elif len(rows) == 0:
        return empty_batch(k, options.trace, checked=not atom_set.unchecked)
    else:
        begun = list(_with_progress(map_in_order(begin, range(len(rows)), options.n_jobs), len(rows), options.progress))
    checked = not atom_set.unchecked
    waited = next((place for place, one in enumerate(begun) if one.waits), 0)
    with metered() as shared:
        finish_by_products(atom_set, begun, k)
    begun[waited].bytes_read += shared.bytes_read  # what they read together counts for the first of them
    results = [one.result(k, options, checked) for one in begun]
    return results[0] if single else SearchResult.stack(results)


def _by_sparse_products(
    search: SparseSearch, rows: NDArray[Any], single: bool, masks: NDArray[np.bool_] | None
) -> list[SparseAnswer] | None:
    """Answer queries by their products with a sparse matrix; None if some score is not finite."""
    excluded = [None] * len(rows) if masks is None else list(masks)
    if single:
        row = rows[0]
        # A copy in double precision would take a fair part of the time.
        plain = plain_row(row, row.size) and bool(np.isfinite(row).all())
        found = [search.answer(row if plain else as_finite(row, ""), excluded[0])]
    else:
        found = search.answers([as_finite(row, f"row {i}, ") for i, row in enumerate(rows)], excluded)
    answers = [answer for answer in found if answer is not None]
    return answers if len(answers) == len(found) else None


def _of_sparse(answer: SparseAnswer, k: int, checked: bool) -> SearchResult:
    """The result of one query to a sparse matrix."""
    pad = k - answer.indices.size
    return SearchResult.of_one_query(
        np.append(answer.indices, np.full(pad, -1)) if pad else answer.indices,
        np.append(answer.scores, np.full(pad, -np.inf)) if pad else answer.scores,
        None,
        answer.n_multiplies,
        n_rounds=0,
        n_survivors=answer.n_candidates,
        stop_reason=StopReason.FINISHED_EXACTLY if answer.n_candidates else StopReason.EXHAUSTED,
        delta_spent=0.0,
        checked=checked,
    )


_OF_CODES = {"sampling": "auto", "replacement": False}


def check_together(atom_set: AtomSet, options: Options) -> None:
    """Check options that only make sense with what is known of the atoms."""
    check_range(atom_set.seen_range, options)
    check_seed(atom_set.store, options)
    if options.delta > 0.0:  # all products need to know nothing
        check_needs(options, atom_set.known_range, atom_set.facts is not None)
    if options.bound == "codes" and atom_set.codes is None:
        raise ValueError(
            "bound='codes' needs an index with codes: BanditMIPS(...).fit(atoms) with layout='auto' or 'codes'"
        )
    sampled = [
        f"{name}={getattr(options, name)!r}" for name, value in _OF_CODES.items() if getattr(options, name) != value
    ]
    if options.bound == "codes" and (sampled or options.objective == "neg_l1"):
        why = sampled[0] if sampled else f"objective={options.objective!r}"
        raise ValueError(f"bound='codes' is about codes, but {why} samples coordinates: use bound='auto'")


class _Begun:
    """A query that was answered, or that waits for its products with all atoms."""

    def __init__(self, query: Query) -> None:
        self.query = query
        with metered() as meter:
            self.outcome = query.outcome()
        self.bytes_read = meter.bytes_read

    @property
    def waits(self) -> bool:
        """Whether it waits for its products."""
        return self.outcome.handed_over

    @property
    def takes_products(self) -> bool:
        """Whether the products with all atoms would tell all scores."""
        return self.query.takes_products

    @property
    def vector(self) -> NDArray[np.float64]:
        """The query as products with it are taken."""
        return self.query.vector

    def finish(self, products: NDArray[Any] | None) -> None:
        """Answer by the products with all atoms."""
        with metered() as meter:
            self.outcome = self.query.all_products(products, self.outcome)
        self.bytes_read += meter.bytes_read

    def result(self, k: int, options: Options, checked: bool) -> SearchResult:
        """Put the result together."""
        outcome = self.outcome
        best = self.query.best(outcome)
        pad = k - best.size
        scores = np.append(outcome.scores[best], np.full(pad, -np.inf))
        radius = np.append(outcome.radius[best], np.zeros(pad))
        return SearchResult(
            indices=np.append(outcome.survivors[best], np.full(pad, -1, dtype=np.int64)),
            scores=scores,
            lower=scores - radius,
            upper=scores + radius,
            exact=np.append(outcome.exact[best], np.ones(pad, dtype=np.bool_)),
            n_multiplies=outcome.n_multiplies,
            n_rounds=outcome.n_rounds,
            n_survivors=outcome.n_survivors,
            stop_reason=outcome.stop_reason,
            delta_spent=outcome.delta_spent,
            bytes_read=self.bytes_read,
            checked=checked,
            trace=self.query.trace(outcome) if options.trace else None,
        )


class MayWait(Protocol):
    """A query that may wait for its products with all atoms."""

    @property
    def waits(self) -> bool:
        """Whether it does."""

    @property
    def takes_products(self) -> bool:
        """Whether the products with all atoms would tell all scores."""

    @property
    def vector(self) -> NDArray[np.float64]:
        """The query as products with it are taken."""

    def finish(self, products: NDArray[Any] | None) -> None:
        """Answer by the products with all atoms, or by none if they cannot be had at once."""


def finish_by_products(atom_set: AtomSet, begun: Sequence[MayWait], k: int) -> None:
    """Let the queries for which sampling does not pay share their products."""
    waiting, store = [one for one in begun if one.waits], atom_set.store
    by_row = store.products[0] if isinstance(store, SparseStore) else None
    if by_row is not None and atom_set.facts is not None:
        queries = [one.vector for one in waiting]
        for one, products in zip(waiting, products_by_row(by_row, queries), strict=True):
            one.finish(products)
        return
    multiply: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    if isinstance(store, DenseStore) and can_use_blas(store.array):
        multiply = partial(products_with_all, store.array)
    elif isinstance(store, PartStore) and can_stream(store, k):
        multiply = partial(streamed_products, store)
    sharing = [one for one in waiting if multiply is not None and one.takes_products]
    for one in waiting:
        if one not in sharing:
            one.finish(None)
    for start in range(0, len(sharing), TOGETHER):
        assert multiply is not None
        some = sharing[start : start + TOGETHER]
        with np.errstate(over="ignore", invalid="ignore"):
            vectors = np.stack([one.vector for one in some]).astype(store.dtype, copy=False)
            products = multiply(vectors)
        for one, of_query in zip(some, products, strict=True):
            one.finish(of_query)


def explain_query(atom_set: AtomSet, query: ArrayLike, k: int, options: Options) -> str:
    """Say in words how one query would be answered."""
    rows, single = as_queries(query, atom_set.store.shape[1])
    if not single:
        raise ValueError(f"query must be one query (1-d), got a batch of shape {rows.shape}")
    check_together(atom_set, options)
    row = as_finite(rows[0], "")
    return Query(atom_set, negative(row) if options.ends == "smallest" else row, check_k(k), options, None).explain()


def _with_progress(results: Iterator[_Begun], m: int, progress: bool) -> Iterator[_Begun]:
    if not progress:
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, description="searching", total=m, console=Console(stderr=True))


def empty_batch(k: int, traced: bool, checked: bool) -> SearchResult:
    """Return the result of no queries."""
    counts = np.empty(0, dtype=np.int64)
    scores = np.empty((0, k))
    return SearchResult(
        indices=np.empty((0, k), dtype=np.int64),
        scores=scores,
        lower=scores,
        upper=scores,
        exact=np.empty((0, k), dtype=np.bool_),
        n_multiplies=counts,
        n_rounds=counts,
        n_survivors=counts,
        stop_reason=(),
        delta_spent=np.empty(0),
        bytes_read=counts,
        checked=checked,
        trace=() if traced else None,
    )
