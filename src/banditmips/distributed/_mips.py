"""DistributedMIPS: fit shards on the workers of a Dask cluster, search them all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from banditmips._extras import require
from banditmips._ids import Ids
from banditmips._options import ClusterOptions, Layout, SharedOptions
from banditmips._result import SearchResult
from banditmips._search import empty_batch
from banditmips._validate import (
    Options,
    as_finite,
    as_mask,
    as_queries,
    changed_options,
    check_flag,
    check_k,
    check_layout,
    reject_unknown,
    seed_or_fresh,
)
from banditmips.distributed._plan import AtHand
from banditmips.distributed._result import DistributedResult, by_worker
from banditmips.race.atom_set import check_range

if TYPE_CHECKING:
    from banditmips.distributed._messages import Work
    from distributed import Client, Future

__all__ = ["DistributedMIPS"]

_BATCH_BYTES, _STATE_BYTES = 1 << 27, 1 << 30
"""Bytes that the queries of one batch may take, and what a shard remembers of their survivors; more are split."""

_OF_A_CALL = dict.fromkeys(("k", "mask", "queries"), "give it to search")
_BEFORE_FIT = {
    "seed": "the shards' coordinates are kept for the seed of the index",
    **dict.fromkeys(("layout", "max_extra_memory", "validate"), "give it to DistributedMIPS before fit"),
}


class DistributedMIPS:
    """Find the atoms with the largest inner products among atoms that are spread over the workers of a Dask cluster.

    `fit` makes every worker read its shards once and keep them, with a cache of a few random coordinates. `search`
    lets all shards sample the same coordinates, exchanges the values of the leaders, and drops on every shard what the
    leaders of all beat; so it takes about as many multiplies as one machine would. The failure probability ``delta`` is
    that of the whole search, however many shards there are (docs/guarantees.md). A worker that dies is no trouble as
    long as others are left and the atoms can be had again: Dask computes what is missing from what it was made of.

    Parameters
    ----------
    client : distributed.Client
        A connected client; needs the ``dask`` extra.
    layout : {"auto", "codes", "coordinates", "none"}
        Whether to keep a few hundred to a few thousand random coordinates of each atom at hand.
    max_extra_memory : int, optional
        Bytes that each shard may take beside its atoms. By default a tenth of them where d >= 10,000.
    validate : bool
        False skips the pass over the atoms: nothing is checked or recorded.
    **options
        Those of `banditmips.search`, for all searches; all but ``seed`` can be changed in a call of `search`. There is
        no ``budget``, ``ends``, ``trace``, ``n_jobs``, ``sampling="optimal"`` and ``sigma="estimate"`` here.

    Attributes
    ----------
    n_atoms, n_coordinates, n_shards : int
        Size of the whole.
    extra_bytes : int
        Memory that all shards together take beside the atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from banditmips.distributed import DistributedMIPS
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.normal(size=(200, 1)) + rng.normal(size=(200, 5_000)) for _ in range(2)]
    >>> query = 2 + rng.normal(size=5_000)
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     index = DistributedMIPS(client, delta=0.01).fit(shards)
    ...     result = index.search(query, k=2)
    >>> bool((result.indices == np.argsort(-np.concatenate(shards) @ query)[:2]).all())
    True
    >>> len(result.workers), sum(worker.n_multiplies for worker in result.workers) == result.n_multiplies
    (2, True)
    """

    def __init__(
        self,
        client: Client,
        *,
        layout: Layout = "auto",
        max_extra_memory: int | None = None,
        validate: bool = True,
        **options: Unpack[ClusterOptions],
    ) -> None:
        distributed = require("distributed", extra="dask", purpose="banditmips.distributed")
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise TypeError(f"client must be a synchronous distributed.Client, got {client!r}")
        self._client = client
        reject_unknown(options, "DistributedMIPS", ("layout", "max_extra_memory", "validate"), _OF_A_CALL)
        self._options = _make_options(Options(), {**options, "seed": seed_or_fresh(options.get("seed", 0))})
        layout, max_extra_memory = check_layout(layout, max_extra_memory)
        if layout == "full":
            raise ValueError("layout='full' is of no use to shards, which never read all atoms at a coordinate")
        self._settings = {
            "layout": layout,
            "max_extra_memory": max_extra_memory,
            "validate": check_flag("validate", validate),
            "seed": self._options.seed,
        }
        self._shards: list[Future[Any]] = []
        self._ids: Ids | None = None
        self._first_rows = np.zeros(1, dtype=np.int64)
        self._d = 0
        self._known_range: tuple[float, float] | None = None
        self._at_hand: AtHand | None = None
        self.extra_bytes = 0

    def fit(self, atoms: Any, *, n_shards: int | None = None, ids: ArrayLike | None = None) -> Self:
        """Read every atom once, on the workers, and keep the shards there.

        Parameters
        ----------
        atoms
            A Dask array of shape (n, d), each block of whose rows becomes a shard; the path of a file that all workers
            can open; or a list of shards: arrays, sparse matrices, paths, or futures of arrays. Arrays of your own
            travel with the task that fits them, so that they can be sent again if a worker dies: leave large ones
            to a Dask array or to files.
        n_shards : int, optional
            How many shards to cut a Dask array or a file into. By default a Dask array's own chunks, and as many as
            there are workers for a file.
        ids : n integers or n strings, optional
            What you call the atoms of all shards one after another; unique. Results then carry ``ids``.
        """
        from banditmips.distributed._shard import fit_shard, summarise
        from banditmips.distributed._sources import find_parts

        if n_shards is not None:
            check_k(n_shards)
        parts = find_parts(self._client, atoms, n_shards)
        first_rows = np.cumsum([0, *(part.shape[0] for part in parts)])
        names = None if ids is None else Ids.of_user(ids, int(first_rows[-1]))
        shards = [
            self._submit(fit_shard, part.source, part.rows, int(first), self._settings)
            for part, first in zip(parts, first_rows[:-1], strict=True)
        ]
        # One after the other, so that of several bad atoms the first one is named.
        summaries = [future.result() for future in [self._submit(summarise, shard) for shard in shards]]
        self._shards = shards
        self._ids = names
        self._first_rows = first_rows
        self._d = parts[0].shape[1]
        self.extra_bytes = sum(summary.extra_bytes for summary in summaries)
        ranges = [summary.known_range for summary in summaries if summary.known_range is not None]
        self._known_range = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
        check_range(self._known_range, self._options)
        n_cached = max(summary.n_cached for summary in summaries)
        on_files = any(summary.on_file for summary in summaries)
        self._at_hand = AtHand(
            cached=n_cached > 0,
            n_shared=n_cached if on_files else None,
            too_sparse=any(summary.too_sparse for summary in summaries),
            known=len(ranges) == len(summaries),
        )
        return self

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        # Not `pure`: hashing the arguments to find equal tasks would take longer than most of them.
        future: Future[Any] = self._client.submit(function, *arguments, pure=False)
        return future

    def _fitted(self) -> list[Future[Any]]:
        if not self._shards:
            raise ValueError("this DistributedMIPS has no atoms yet: call fit(atoms) first")
        return self._shards

    @property
    def n_shards(self) -> int:
        """Number of shards that hold atoms."""
        return len(self._fitted())

    @property
    def n_atoms(self) -> int:
        """Number of atoms on all shards."""
        self._fitted()
        return int(self._first_rows[-1])

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of an atom."""
        self._fitted()
        return self._d

    def search(
        self, queries: ArrayLike, k: int = 1, *, mask: ArrayLike | None = None, **options: Unpack[SharedOptions]
    ) -> DistributedResult:
        """Find the k best atoms for each query.

        All queries of a batch go through the same few exchanges.

        Parameters
        ----------
        queries : array of shape (d,) or (m, d)
        k : int
        mask : bool array of shape (n,) or (m, n), optional
            True excludes an atom.
        **options
            Options that differ from the index's for this call.

        Returns
        -------
        DistributedResult
            Indices are those of the shards' atoms one after another. The failure probability ``delta`` holds for each
            query.
        """
        reject_unknown(options, "search", ("k", "mask", "queries"), _BEFORE_FIT)
        chosen = _make_options(self._options, options)
        k = check_k(k)
        n = self.n_atoms
        check_range(self._known_range, chosen)
        at_hand = self._at_hand
        assert at_hand is not None
        if at_hand.n_shared is not None and (chosen.replacement or chosen.sampling not in ("auto", "uniform")):
            raise ValueError(
                "atoms in files are sampled at cached coordinates, which are uniform ones without replacement: "
                f"set sampling='auto' and replacement=False (got {chosen.sampling!r} and {chosen.replacement})"
            )
        rows, single = as_queries(queries, self._d)
        masks = as_mask(mask, n, len(rows), single)
        with np.errstate(over="ignore"):
            for number, row in enumerate(rows):
                as_finite(row, "" if single else f"row {number}, ")
        from banditmips.distributed._batch import BatchSearch

        checked = bool(self._settings["validate"])
        works: list[Work] = []
        results: list[SearchResult] = []
        n_exchanges = 0
        largest = int(np.diff(self._first_rows).max())
        size = max(1, min(_BATCH_BYTES // (8 * self._d), _STATE_BYTES // (8 * largest)))
        with _quiet_about_queries(), _progress_bar(len(rows), chosen.progress) as advance:
            for start in range(0, len(rows), size):
                some = slice(start, start + size)
                search = BatchSearch(
                    self._submit,
                    self._client.gather,
                    self._shards,
                    self._first_rows,
                    rows[some],
                    None if masks is None else masks[some],
                    k,
                    chosen,
                    self._known_range,
                    at_hand,
                )
                search.run(advance)
                results += [race.result(checked) for race in search.races]
                works += search.works
                n_exchanges += search.n_exchanges
        if single:
            found = results[0]
        else:
            found = SearchResult.stack(results) if results else empty_batch(k, False, checked)
        found.labelled(chosen.seed, (n, self._d), self._ids)
        fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
        return DistributedResult(**fields, workers=by_worker(works), n_exchanges=n_exchanges)


def _make_options(base: Options, changes: Mapping[str, Any]) -> Options:
    """Check options, and refuse those that shards cannot serve."""
    options = changed_options(base, changes)
    for name, served, why in (
        ("budget", options.budget is None, "shards do not know what the others have used up"),
        ("ends", options.ends == "largest", "search for the negative queries instead"),
        ("trace", not options.trace, "no shard sees all rounds"),
        ("n_jobs", options.n_jobs == 1, "the cluster decides how many threads there are"),
        ("sampling", options.sampling != "optimal", "no shard knows the column norms of the others"),
        ("bound", options.bound != "codes", "shards keep coordinates, not codes"),
        ("sigma", options.sigma != "estimate", "every shard would estimate another one"),
    ):
        if not served:
            raise ValueError(f"{name}={getattr(options, name)!r} is not possible over several workers: {why}")
    return options


@contextmanager
def _quiet_about_queries() -> Iterator[None]:
    """Let queries travel with their task, however many there are: only so can they be had again if a worker dies."""
    config = require("dask.config", extra="dask", purpose="banditmips.distributed")
    with config.set({"distributed.admin.large-graph-warning-threshold": 2 * _BATCH_BYTES}):
        yield


@contextmanager
def _progress_bar(m: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Show how many of m queries have been answered; yields what to call with the number of new ones."""
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("searching", total=m)
        yield lambda count: bar.advance(task, count)
