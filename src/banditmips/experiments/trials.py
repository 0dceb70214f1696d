"""One trial of some methods on one dataset at several sizes: the task that most figures are made of."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from banditmips.baselines._base import inner_products
from banditmips.experiments.entries import DATASETS, Entry
from banditmips.experiments.kinds import KINDS, draw_kind
from banditmips.experiments.origins import origin_of
from banditmips.experiments.rows import DRAWN, PAPER, SURROGATE, Row, identity_key
from banditmips.experiments.today import Today

__all__ = ["Extra", "Sample", "Task", "Trial", "Truth", "blas_seconds", "draw", "precision", "queries_for"]


_LARGE = 10_000_000
"""Entries from which on a matrix is not left to the garbage collector: searches leave cycles that hold on to it."""


class Task(Protocol):
    """A part of a run that knows the keys of its rows before it makes them, and travels between processes.

    Attributes
    ----------
    figure, dataset, algorithm
        What to call it by, for people.
    origin
        Where the dataset comes from, as `banditmips.experiments.plan.plan` has found it.
    cost
        About how many seconds it takes, to tell how much time is left.
    alone
        Whether nothing else may run at the same time, as where the clock is read.
    """

    @property
    def figure(self) -> str: ...
    @property
    def dataset(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def cost(self) -> float: ...
    @property
    def alone(self) -> bool: ...

    def keys(self) -> list[str]:
        """Return the keys of all its rows (see `banditmips.experiments.rows.row_key`)."""

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield its rows as they are measured, but for those whose keys are in `done`."""


class Sample(NamedTuple):
    """Atoms and queries."""

    atoms: NDArray[Any]
    queries: NDArray[Any]

    def cut(self, n: int, d: int, columns: NDArray[np.intp] | None) -> Sample:
        """Return the first n atoms at the first d coordinates (of `columns`, where they are given)."""
        if d == self.atoms.shape[1]:
            return Sample(self.atoms[:n], self.queries)
        kept: slice | NDArray[np.intp] = slice(d) if columns is None else np.sort(columns[:d])
        return Sample(np.ascontiguousarray(self.atoms[:n, kept]), np.ascontiguousarray(self.queries[:, kept]))


def draw(
    dataset: str, size: tuple[int, int], n_queries: int, seed: int, origin: str = DRAWN, transposed: bool = False
) -> Sample:
    """Return n atoms of d coordinates, and queries, of a dataset of that origin.

    Transposed, what are coordinates elsewhere are the atoms and the queries.

    Raises
    ------
    ValueError
        If the dataset's files are not those that the origin names.
    """
    n, d = size
    if dataset in KINDS:
        return Sample(*draw_kind(dataset, n, d, n_queries, seed))
    known = DATASETS[dataset]
    if origin not in (DRAWN, SURROGATE) and (found := origin_of(dataset)) != origin:
        raise ValueError(f"the data of {dataset} were {origin} when the run began, and are {found} now")
    options: dict[str, Any] = {"surrogate": origin == SURROGATE} if known.from_files else {}
    if transposed:
        data = datasets.load(known.loader, n=d, d=n + n_queries, n_queries=1, seed=seed, **options)
        rows = np.ascontiguousarray(data.atoms.T)
        return Sample(rows[:n], rows[n:])
    data = datasets.load(known.loader, n=n, d=d, n_queries=n_queries, seed=seed, **options)
    return Sample(data.atoms, data.queries)


def queries_for(dataset: str, wanted: int) -> int:
    """Return how many queries a trial on this dataset has: one where the atoms are made for it."""
    return 1 if dataset in KINDS or DATASETS[dataset].one_query else wanted


def blas_seconds(sample: Sample) -> float:
    """Return the median time of a full product by BLAS and of its largest entry, after a warm-up."""
    seconds = []
    for number in range(max(4, len(sample.queries) + 1)):
        query = sample.queries[number % len(sample.queries)]
        start = time.perf_counter()
        (sample.atoms @ query).argmax()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))


class Truth(NamedTuple):
    """The exact scores of all atoms with one query."""

    query: NDArray[Any]
    scores: NDArray[np.float64]


def precision(found: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> float:
    """Return the share of the k best atoms that was found; an atom that ties with the k-th best is one of them.

    Examples
    --------
    >>> precision(np.array([0, 2]), np.array([3.0, 1.0, 2.0]), 2), precision(np.array([1, -1]), np.array([3.0, 1.0]), 2)
    (1.0, 0.5)
    """
    k = min(k, scores.size)
    kth_best = np.partition(scores, scores.size - k)[scores.size - k]
    returned = np.unique(found[found >= 0])
    return int(np.count_nonzero(scores[returned] >= kth_best)) / k


Extra = Callable[[str, Entry, Sample, Sequence[Truth]], Mapping[str, Any]]
"""Makes what a figure has in `Row.extra` from the dataset's name, an entry, the data, and their exact scores."""


@dataclass(frozen=True)
class Trial:
    """Methods on one draw of a dataset, cut to several sizes.

    Attributes
    ----------
    questions
        Pairs of a figure and a k: a method is fitted once, and answers for all of them.
    dataset, entries
        Who runs where.
    sizes
        Pairs of n and d. The data are drawn once for the largest, and cut.
    trial
        Number of the trial, and seed of everything in it.
    n_queries
        Queries to take means over.
    transposed
        As in `draw`.
    extra
        What adds to `Row.extra`, if anything does; a function that can be found by its name.
    origin
        As in `draw`.
    """

    questions: tuple[tuple[str, int], ...]
    dataset: str
    entries: tuple[Entry, ...]
    sizes: tuple[tuple[int, int], ...]
    trial: int
    n_queries: int = 1
    transposed: bool = False
    extra: Extra | None = None
    origin: str = DRAWN
    alone: bool = False

    @property
    def cost(self) -> float:
        """About how many seconds it takes: rates measured on one core of 2.5 GHz."""
        most_n, most_d = self._largest
        seconds = 0.02 + 2e-8 * most_n * most_d
        for n, d in self.sizes:
            seconds += 5e-9 * n * d * self.n_queries
            for entry in self.entries:
                n_searches = len(self.questions) * self.n_queries
                seconds += 0.0 if entry.is_race else 6e-8 * n * d
                seconds += n_searches * (0.002 + self._search_rate(entry) * n * d)
        return seconds

    @property
    def _largest(self) -> tuple[int, int]:
        return max(n for n, _ in self.sizes), max(d for _, d in self.sizes)

    def _search_rate(self, entry: Entry) -> float:
        """Seconds of a search for each entry of the matrix."""
        wide = entry.settings == PAPER and entry.options.get("sigma", 1.0) > 1.0 and "bucket_size" not in entry.options
        if entry.is_race and (wide or self.dataset == "SymmetricNormal"):
            return 4e-8  # it comes to nearly all products, round by round
        return 3e-9

    @property
    def figure(self) -> str:
        """The figures that it makes rows for."""
        return ", ".join(dict.fromkeys(figure for figure, _ in self.questions))

    @property
    def algorithm(self) -> str:
        """The algorithms that it runs."""
        return ", ".join(dict.fromkeys(entry.algorithm for entry in self.entries))

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [
            self._key(figure, k, entry, size)
            for size in self.sizes
            for entry in self.entries
            for figure, k in self.questions
        ]

    def _key(self, figure: str, k: int, entry: Entry, size: tuple[int, int]) -> str:
        return identity_key(
            figure=figure,
            dataset=self.dataset,
            origin=self.origin,
            algorithm=entry.algorithm,
            settings=entry.settings,
            n=size[0],
            d=size[1],
            k=k,
            delta=entry.delta,
            epsilon=entry.epsilon,
            parameters=entry.parameters,
            trial=self.trial,
        )

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each size, entry and question."""
        _, most_d = self._largest
        whole = draw(self.dataset, self._largest, self.n_queries, self.trial, self.origin, self.transposed)
        columns = None
        if self.origin != DRAWN and not self.transposed:
            # Coordinates of real data have an order (users by their number, minutes): take them from all over it.
            columns = np.random.default_rng(self.trial).permutation(most_d)
        for n, d in self.sizes:
            waiting = [
                (
                    entry,
                    [(figure, k) for figure, k in self.questions if self._key(figure, k, entry, (n, d)) not in done],
                )
                for entry in self.entries
            ]
            if any(questions for _, questions in waiting):
                yield from self._compare(whole.cut(n, d, columns), waiting)
                if n * d >= _LARGE:
                    gc.collect()

    def _compare(self, sample: Sample, waiting: list[tuple[Entry, list[tuple[str, int]]]]) -> Iterator[Row]:
        d = sample.atoms.shape[1]
        truths = [Truth(query, inner_products(sample.atoms, query.astype(np.float64))) for query in sample.queries]
        full_product = blas_seconds(sample)
        for entry, questions in waiting:
            if not questions:
                continue
            _warm_up(entry)
            searcher = entry.make(d, self.trial)
            start = time.perf_counter()
            searcher.fit(sample.atoms)
            told: dict[str, Any] = {"blas_seconds": full_product, "fit_seconds": time.perf_counter() - start}
            told |= {} if self.extra is None else self.extra(self.dataset, entry, sample, truths)
            for figure, k in questions:
                yield self._measure((figure, k), entry, searcher, truths, told)

    def _measure(
        self, question: tuple[str, int], entry: Entry, searcher: Any, truths: list[Truth], told: dict[str, Any]
    ) -> Row:
        figure, k = question
        n, d = truths[0].scores.size, truths[0].query.size
        asked = _ask_all(searcher.search, truths, k)
        extra = {**told, **entry.preparation(n, d)}
        if isinstance(searcher, Today):
            fast = _ask_all(searcher.search_fast, truths, k)
            extra |= {f"fast_{name}": value for name, value in fast._asdict().items()}
        return Row(
            figure=figure,
            dataset=self.dataset,
            origin=self.origin,
            algorithm=entry.algorithm,
            settings=entry.settings,
            n=n,
            d=d,
            k=k,
            delta=entry.delta,
            epsilon=entry.epsilon,
            trial=self.trial,
            seed=self.trial,
            **asked._asdict(),
            naive=float(n * d),
            parameters=entry.parameters,
            extra=extra,
        )


class _Answers(NamedTuple):
    """What the queries of a trial took, and how good the answers were: means over them."""

    multiplies: float
    accuracy: float
    seconds: float


def _ask_all(search: Callable[[NDArray[Any], int], Any], truths: Sequence[Truth], k: int) -> _Answers:
    seconds, multiplies, accuracies = [], [], []
    for query, scores in truths:
        start = time.perf_counter()
        result = search(query, k)
        seconds.append(time.perf_counter() - start)
        multiplies.append(int(result.n_multiplies))
        accuracies.append(precision(result.indices, scores, k))
    return _Answers(float(np.mean(multiplies)), float(np.mean(accuracies)), float(np.mean(seconds)))


_warm: set[tuple[Any, ...]] = set()


def _warm_up(entry: Entry) -> None:
    """Run a race once on next to nothing, so that no row's seconds hold the loading of compiled code."""
    kind = (entry.method, entry.settings, entry.options.get("bound"), entry.options.get("sampling"))
    if not entry.is_race or kind in _warm:
        return
    atoms = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
    searcher = entry.make(1000, 0)
    searcher.fit(atoms)
    searcher.search(atoms[0], 1)
    if isinstance(searcher, Today):
        searcher.search_fast(atoms[0], 1)
    _warm.add(kind)
