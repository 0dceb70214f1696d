"""DistributedMIPS: fit shards on the workers of a Dask cluster, search them all together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._ends import at_ends
from banditmips._extras import require
from banditmips._ids import Ids
from banditmips._options import ClusterOptions, Layout, SharedOptions
from banditmips._padding import check_room, widened
from banditmips._progress import progress_bar
from banditmips._queries import empty_batch
from banditmips._result import SearchResult
from banditmips._search_options import check_real
from banditmips._validate import (
    Options,
    as_mask,
    as_queries,
    check_flag,
    check_k,
    check_layout,
    reject_unknown,
    seed_or_fresh,
)
from banditmips.distributed._checks import check_finite, cluster_options
from banditmips.distributed._cluster import Cluster, WorkerLostError, choose_homes
from banditmips.distributed._result import DistributedResult, by_worker
from banditmips.race.atom_set import check_range

if TYPE_CHECKING:
    from banditmips._saved_atoms import AtomsPlace
    from banditmips._saving import Verify
    from banditmips.distributed._batch import BatchSearch
    from banditmips.distributed._messages import Work
    from banditmips.distributed._shard import Summary
    from distributed import Client, Future

__all__ = ["DistributedMIPS"]

_BATCH_BYTES, _STATE_BYTES = 1 << 27, 1 << 30
"""Bytes that the queries of one batch may take, and what a shard remembers of their survivors; more are split."""
_BYTES_OF_A_CANDIDATE = 48
"""What a race remembers of each atom."""

_OF_A_CALL = dict.fromkeys(("k", "mask", "queries"), "give it to search")
_BEFORE_FIT = {
    "seed": "the shards' codes are kept for the seed of the index",
    **dict.fromkeys(("layout", "max_extra_memory", "timeout", "validate"), "give it to DistributedMIPS before fit"),
}


class DistributedMIPS:
    """Find the atoms with the largest inner products among atoms that are spread over the workers of a Dask cluster.

    `fit` makes every worker read its shards once and keep them, with codes of their atoms, as a `BanditMIPS` does.
    `search` runs the same race on all shards and exchanges what the best are worth, so that every shard drops what the
    best of all beat: it takes about as many multiplies as one machine would. The failure probability ``delta`` is that
    of the whole search, however many shards there are (docs/guarantees.md). A worker that dies is no trouble as long
    as others are left and the atoms can be had again: Dask computes what is missing from what it was made of.

    Parameters
    ----------
    client : distributed.Client
        A connected client; needs the ``dask`` extra.
    layout, max_extra_memory, validate
        As in `BanditMIPS`, for each shard.
    timeout : float, optional
        Seconds that the shards may take for one exchange of a search, before it ends with a `TimeoutError` that names
        the workers it waited for. None waits for ever.
    **options
        Those of `banditmips.search`, for all searches; all but ``seed`` can be changed in a call of `search`. There is
        no ``trace`` and no ``n_jobs`` here.

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
        timeout: float | None = 600.0,
        **options: Unpack[ClusterOptions],
    ) -> None:
        distributed = require("distributed", extra="dask", purpose="banditmips.distributed")
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise TypeError(f"client must be a synchronous distributed.Client, got {client!r}")
        if timeout is not None:
            check_real("timeout", timeout, "above 0, or None", is_fine=lambda x: x > 0.0)
        self._cluster = Cluster(client, timeout)
        reject_unknown(options, "DistributedMIPS", ("layout", "max_extra_memory", "timeout", "validate"), _OF_A_CALL)
        self._options = cluster_options(Options(), {**options, "seed": seed_or_fresh(options.get("seed", 0))})
        layout, max_extra_memory = check_layout(layout, max_extra_memory)
        self._settings = {
            "layout": layout,
            "max_extra_memory": max_extra_memory,
            "validate": check_flag("validate", validate),
            "seed": self._options.seed,
        }
        self._shards: list[Future[Any]] = []
        self._homes: list[str | None] = []
        self._workers: list[str] = []
        self._summaries: list[Summary] = []
        self._files: list[tuple[str, int, Verify, AtomsPlace | None]] | None = None
        self._ids: Ids | None = None
        self._first_rows = np.zeros(1, dtype=np.int64)
        self._known_range: tuple[float, float] | None = None

    def fit(self, atoms: Any, *, n_shards: int | None = None, ids: ArrayLike | None = None) -> Self:
        """Read every atom once, on the workers, and keep the shards there.

        Parameters
        ----------
        atoms
            A Dask array of shape (n, d), each block of whose rows becomes a shard; the path of a file or of a packed
            group that all workers can open; or a list of shards: arrays, sparse matrices, paths, packed groups, loaders
            (`dask.delayed`) or futures of arrays. Arrays of your own travel with the task that fits them, so that they
            can be sent again if a worker dies: leave large ones to a Dask array, to loaders or to files. A loader or a
            block of a Dask array that raises is tried again, twice.
        n_shards : int, optional
            How many shards to cut a Dask array or a file into. By default a Dask array's own chunks, and as many as
            there are workers for a file.
        ids : n integers or n strings, optional
            What you call the atoms of all shards one after another; unique. Results then carry ``ids``.
        """
        from banditmips.distributed._shard import fit_shard
        from banditmips.distributed._sources import find_parts, is_delayed

        if n_shards is not None:
            check_k(n_shards)
        cluster = self._cluster
        parts = find_parts(cluster, atoms, n_shards)
        first_rows = np.cumsum([0, *(part.shape[0] for part in parts)])
        names = None if ids is None else Ids.of_user(ids, int(first_rows[-1]))
        workers = cluster.workers()
        homes = choose_homes([part.shape[0] for part in parts], workers, [part.home for part in parts])
        shards = []
        for part, first, home in zip(parts, first_rows[:-1].tolist(), homes, strict=True):
            source = cluster.compute(part.source, home) if is_delayed(part.source) else part.source
            shards.append(cluster.submit(fit_shard, source, part.rows, first, self._settings, home=home))
        self._take(shards, homes, workers, names)
        self._files = None
        return self

    def _take(self, shards: list[Future[Any]], homes: list[str | None], workers: list[str], names: Ids | None) -> None:
        """Wait for shards, and keep them if they are fine."""
        from banditmips.distributed._shard import summarise

        looks = [self._cluster.submit(summarise, shard, home=home) for shard, home in zip(shards, homes, strict=True)]
        summaries: list[Summary] = self._cluster.gather(looks, limited=False)
        ranges = [summary.known_range for summary in summaries if summary.known_range is not None]
        known_range = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
        check_range(known_range, self._options)
        self._shards, self._homes, self._workers = shards, homes, workers
        self._summaries, self._ids, self._known_range = summaries, names, known_range
        self._first_rows = np.cumsum([0, *(summary.shape[0] for summary in summaries)])

    def _stay_even(self) -> None:
        """Follow the workers that have come and gone since the last search."""
        from banditmips.distributed._shard import load_shard
        from banditmips.distributed._tasks import as_is

        workers = self._cluster.workers()
        if workers == self._workers:
            return
        homes = choose_homes(np.diff(self._first_rows).tolist(), workers, self._homes)
        for number, (old, home) in enumerate(zip(self._homes, homes, strict=True)):
            if home == old:
                continue
            if self._files is None:
                self._shards[number] = self._cluster.submit(as_is, self._shards[number], home=home)
            else:  # a file is opened anew rather than sent
                self._shards[number] = self._cluster.submit(load_shard, *self._files[number], home=home)
        self._homes, self._workers = homes, workers

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write every shard's index to a file in a folder that all workers can write to, and read again.

        Shards of a file or of a packed group that were fitted where they lie are saved without their atoms, as
        `BanditMIPS.save` does it: what was prepared, where the file is, which rows, and what shows that it is the same.
        The workers write their shards, and the list of them comes last: until then, what was saved there before is as
        it was. `DistributedMIPS.load` opens it.
        """
        from banditmips.distributed._saving import save_shards, settings_to_save

        self._fitted()
        self._stay_even()
        settings = settings_to_save(self._options, self._settings)
        shapes = [summary.shape for summary in self._summaries]
        save_shards(self._cluster, folder, self._shards, self._homes, shapes, settings, self._ids)

    @classmethod
    def load(
        cls,
        client: Client,
        folder: str | os.PathLike[str],
        *,
        verify: Verify = "lazy",
        timeout: float | None = 600.0,
        atoms: AtomsPlace | Sequence[AtomsPlace | None] | None = None,
    ) -> Self:
        """Open what `save` has written, on any number of workers that can read it. The atoms stay on disk, mapped.

        Parameters
        ----------
        client : distributed.Client
        folder
            What `save` has written.
        verify : {"lazy", "now", "never"}
            As in `banditmips.load`, for each shard.
        timeout
            As in `DistributedMIPS`.
        atoms : path, optional
            Where the workers find the atoms now, as in `banditmips.load`, if the index was fitted to a file that is
            neither where it was nor, beside the folder, where it was. If shards have files of their own, a list with
            the path of each, and None for shards whose atoms were saved with them.
        """
        from banditmips.distributed._saving import read_list
        from banditmips.distributed._shard import load_shard

        saved = read_list(folder)
        index = cls(client, timeout=timeout, **saved.settings)
        cluster = index._cluster
        workers = cluster.workers()
        homes = choose_homes(saved.n_atoms, workers, [None] * len(saved.paths))
        first_rows = np.cumsum([0, *saved.n_atoms])[:-1].tolist()
        each = zip(saved.paths, first_rows, saved.places(atoms), strict=True)
        index._files = [(path, first, verify, place) for path, first, place in each]
        shards = [cluster.submit(load_shard, *file, home=home) for file, home in zip(index._files, homes, strict=True)]
        index._take(shards, homes, workers, saved.ids)
        saved.check([summary.shape for summary in index._summaries])
        return index

    def _fitted(self) -> list[Future[Any]]:
        if not self._shards:
            raise ValueError("this DistributedMIPS has no atoms yet: call fit(atoms) first")
        return self._shards

    @property
    def extra_bytes(self) -> int:
        """Memory that all shards together take beside the atoms."""
        return sum(summary.extra_bytes for summary in self._summaries)

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
        return self._summaries[0].shape[1]

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
        chosen = cluster_options(self._options, options)
        n, d = self.n_atoms, self.n_coordinates
        k = check_k(k)
        check_range(self._known_range, chosen)
        if chosen.budget is not None and chosen.budget < n:
            raise ValueError(f"budget must allow at least one multiply for each of the {n} atoms, got {chosen.budget}")
        self._stay_even()
        works: list[Work] = []
        exchanges: list[int] = []

        def find(queries: ArrayLike, wanted: int, mask: ArrayLike | None) -> SearchResult:
            return self._find_largest(queries, wanted, chosen, mask, works, exchanges)

        with _quiet_about_queries():
            found = at_ends(find, (n, d), queries, k, mask, chosen).labelled(chosen.seed, (n, d), self._ids)
        fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
        result = DistributedResult(**fields, workers=by_worker(works), n_exchanges=sum(exchanges))
        return widened(result, k, chosen.ends)

    def _find_largest(
        self,
        queries: ArrayLike,
        k: int,
        options: Options,
        mask: ArrayLike | None,
        works: list[Work],
        exchanges: list[int],
    ) -> SearchResult:
        """Find the largest scores, and write down what each worker did and how often the shards reported."""
        n, d = self.n_atoms, self.n_coordinates
        rows, single = as_queries(queries, d)
        masks = as_mask(mask, n, len(rows), single)
        check_room(k, len(rows))
        check_finite(rows, single)
        checked = bool(self._settings["validate"])
        results: list[SearchResult] = []
        largest = _BYTES_OF_A_CANDIDATE * int(np.diff(self._first_rows).max())
        size = max(1, min(_BATCH_BYTES // (8 * d), _STATE_BYTES // largest))
        with progress_bar("searching", len(rows), options.progress) as advance:
            for start in range(0, len(rows), size):
                some = slice(start, start + size)
                masked = None if masks is None else masks[some]
                search = self._search_batch(rows[some], masked, k, options)
                advance(len(search.races))
                results += [race.result(checked) for race in search.races]
                works += search.works
                exchanges.append(search.n_exchanges)
        if single:
            return results[0]
        return SearchResult.stack(results) if results else empty_batch(k, False, checked)

    def _search_batch(
        self, queries: NDArray[Any], masks: NDArray[np.bool_] | None, k: int, options: Options
    ) -> BatchSearch:
        """Answer a batch by calls, and if a worker is lost on the way, once more by tasks."""
        from banditmips.distributed._batch import BatchSearch
        from banditmips.distributed._serving import ByCalls, ByTasks

        n_first = min(summary.n_first for summary in self._summaries)

        def searched(way: type[ByCalls | ByTasks]) -> BatchSearch:
            serving = partial(way, self._cluster, self._shards, self._homes)
            search = BatchSearch(serving, self._first_rows, queries, masks, k, options, n_first)
            search.run()
            return search

        try:
            return searched(ByCalls)
        except WorkerLostError:
            return searched(ByTasks)


@contextmanager
def _quiet_about_queries() -> Iterator[None]:
    """Let queries travel with their task, however many there are: only so can they be had again if a worker dies."""
    config = require("dask.config", extra="dask", purpose="banditmips.distributed")
    with config.set({"distributed.admin.large-graph-warning-threshold": 2 * _BATCH_BYTES}):
        yield
