"""What a search returns: the atoms, how sure we are of them, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from banditmips.core.records import Round, StopReason, Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from banditmips._ids import Ids

__all__ = ["Round", "SearchResult", "StopReason", "Trace"]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The atoms found for one query (1-d fields) or for a batch of m (2-d fields).

    Unpacks as ``indices, scores``.

    Attributes
    ----------
    indices : int64, shape (k,) or (m, k)
        The atoms found, best first. Padded with -1 where there are fewer than k candidates.
    scores : float64, same shape
        Their scores: exact where `exact` says so, estimates otherwise; -inf in the padding (inf at the smallest end).
    lower, upper : float64, same shape
        Confidence interval of each score; both equal the score where it is exact.
    exact : bool, same shape
        Whether the score was computed from all coordinates.
    n_multiplies : int or int64 array of shape (m,)
        (atom, coordinate) pairs evaluated for the query, cached or not, where the query is not 0. An exact finish
        counts the pairs that the rounds had not seen yet; rescoring counts all of its k*d.
    n_rounds, n_survivors : int or int64 array of shape (m,)
        Rounds of sampling, and atoms still in the race at the end of them.
    stop_reason : StopReason or tuple of m of them
        Why the race ended.
    delta_spent : float or float64 array of shape (m,)
        Part of ``delta`` that was used: 0 where the answer comes from exact products of every candidate.
    bytes_read : int or int64 array of shape (m,)
        Bytes read from a file or a remote store for the query: pages touched of a file of plain entries; the stored
        (compressed) size of chunks of Zarr, HDF5 and Parquet, the decoded size of others. 0 where the atoms are in
        memory, and for chunks that were read before and kept. Bytes that are read once for a whole batch count for
        its first query.
    checked : bool
        Whether all atoms were checked for NaN and infinities: by `fit`, unless ``validate=False`` skipped it, or
        for the cosine's norms. A search without an index looks at no more than what it reads.
    trace : Trace or tuple of m of them, or None
        What happened in each round, if it was asked for.
    seed : int or None
        The seed of the search, which gives the same answer again: drawn where ``seed=None`` was asked for.
    ids : int64 or str, same shape as `indices`, or None
        What `fit` was told that the atoms are called; -1 or an empty string in the padding.
    atoms_shape : (n, d) or None
        Shape of the atoms that were searched.
    smallest : SearchResult or None
        With ``ends="both"``, what was found at the other end, the smallest first.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    exact: NDArray[np.bool_]
    n_multiplies: Any
    n_rounds: Any
    n_survivors: Any
    stop_reason: Any
    delta_spent: Any
    bytes_read: Any = 0
    checked: bool = True
    trace: Any = None
    seed: int | None = None
    ids: NDArray[Any] | None = None
    atoms_shape: tuple[int, int] | None = None
    smallest: SearchResult | None = None

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Unpack as ``indices, scores``."""
        yield self.indices
        yield self.scores

    def __repr__(self) -> str:
        """Say what was found, by what part of all products, and why the search ended."""
        from banditmips._display import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from banditmips._display import result_html

        return result_html(self)

    @property
    def share(self) -> Any:
        """Multiplies for each query as a part of all n*d; None where the shape of the atoms is not known."""
        if self.atoms_shape is None:
            return None
        n, d = self.atoms_shape
        return self.n_multiplies / (n * d)

    @classmethod
    def of_queries(
        cls,
        indices: NDArray[np.int64],
        scores: NDArray[np.float64],
        radius: NDArray[np.float64] | None,
        n_multiplies: Any,
        **fields: Any,
    ) -> SearchResult:
        """Make the result of a query, or of a batch, in a fraction of the time that a frozen dataclass takes.

        `radius` is None where the scores are exact. The fields that follow from it are filled in when they are asked
        for, and so is `n_multiplies` where it is a function that counts them. `fields` are the others.
        """
        result = cls.__new__(cls)
        result.__dict__.update(fields, indices=indices, scores=scores, _radius=radius)
        result.__dict__["_count" if callable(n_multiplies) else "n_multiplies"] = n_multiplies
        return result

    def __getstate__(self) -> dict[str, Any]:
        """All fields; what counts multiplies would take the atoms with it."""
        _ = self.n_multiplies
        return self.__dict__

    @classmethod
    def stack(cls, results: Sequence[SearchResult]) -> SearchResult:
        """Join single-query results into the result of a batch (of at least one query)."""
        first = results[0]
        traced = first.trace is not None
        ids = [r.ids for r in results if r.ids is not None]

        def count() -> NDArray[np.int64]:
            return np.array([r.n_multiplies for r in results], dtype=np.int64)

        later = any("_count" in r.__dict__ for r in results)
        batch = cls(
            indices=np.stack([r.indices for r in results]),
            scores=np.stack([r.scores for r in results]),
            lower=np.stack([r.lower for r in results]),
            upper=np.stack([r.upper for r in results]),
            exact=np.stack([r.exact for r in results]),
            n_multiplies=None if later else count(),
            n_rounds=np.array([r.n_rounds for r in results], dtype=np.int64),
            n_survivors=np.array([r.n_survivors for r in results], dtype=np.int64),
            stop_reason=tuple(r.stop_reason for r in results),
            delta_spent=np.array([r.delta_spent for r in results], dtype=np.float64),
            bytes_read=np.array([r.bytes_read for r in results], dtype=np.int64),
            checked=all(r.checked for r in results),
            trace=tuple(r.trace for r in results) if traced else None,
            seed=first.seed if all(r.seed == first.seed for r in results) else None,
            atoms_shape=first.atoms_shape if all(r.atoms_shape == first.atoms_shape for r in results) else None,
            ids=np.stack(ids) if len(ids) == len(results) else None,
        )
        if later:
            del batch.__dict__["n_multiplies"]
            batch.__dict__["_count"] = count
        return batch

    def labelled(
        self, seed: int, atoms_shape: tuple[int, ...], ids: Ids | None = None, checked: bool | None = None
    ) -> Self:
        """Fill in what is the same for all queries of a search; for a result that nobody else has seen yet."""
        fields = self.__dict__
        fields["seed"], fields["atoms_shape"] = seed, atoms_shape
        if checked is not None:
            fields["checked"] = checked
        if ids is not None:
            fields["ids"] = ids.at(self.indices)
        if self.smallest is not None:
            self.smallest.labelled(seed, atoms_shape, ids, checked)
        return self

    def took(self, seconds: float) -> Self:
        """Write into its traces what all queries took together; for a result that nobody else has seen yet."""
        for result in (self, self.smallest):
            if result is None or result.trace is None:
                continue
            if isinstance(result.trace, Trace):
                result.__dict__["trace"] = result.trace.timed(seconds)
            else:
                each = seconds / max(len(result.trace), 1)
                result.__dict__["trace"] = tuple(one.timed(each) for one in result.trace)
        return self

    def __getitem__(self, query: int) -> SearchResult:
        """Return the result of one query of a batch."""
        if self.indices.ndim == 1:
            raise TypeError("this is the result of a single query; only a batch can be indexed")
        if not isinstance(query, (int, np.integer)):
            raise TypeError(f"a batch is indexed by the number of one query, got {query!r}")
        return replace(
            self,
            indices=self.indices[query],
            scores=self.scores[query],
            lower=self.lower[query],
            upper=self.upper[query],
            exact=self.exact[query],
            n_multiplies=int(self.n_multiplies[query]),
            n_rounds=int(self.n_rounds[query]),
            n_survivors=int(self.n_survivors[query]),
            stop_reason=self.stop_reason[query],
            delta_spent=float(self.delta_spent[query]),
            bytes_read=int(self.bytes_read[query]),
            trace=None if self.trace is None else self.trace[query],
            ids=None if self.ids is None else self.ids[query],
            smallest=None if self.smallest is None else self.smallest[query],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row for each (query, rank); needs the ``tables`` extra.

        With ``ends="both"`` the rows of the smallest follow those of the largest; a column ``end`` names the end.
        """
        from banditmips._extras import require

        pandas = require("pandas", extra="tables", purpose="SearchResult.to_frame")
        indices = np.atleast_2d(self.indices)
        m, k = indices.shape
        frame: pd.DataFrame = pandas.DataFrame(
            {
                "query": np.repeat(np.arange(m), k),
                "rank": np.tile(np.arange(1, k + 1), m),
                "index": indices.ravel(),
                **({} if self.ids is None else {"id": self.ids.ravel()}),
                "score": self.scores.ravel(),
                "lower": self.lower.ravel(),
                "upper": self.upper.ravel(),
                "exact": self.exact.ravel(),
                "n_multiplies": np.repeat(np.atleast_1d(self.n_multiplies), k),
                "bytes_read": np.repeat(np.atleast_1d(self.bytes_read), k),
                "stop_reason": np.repeat([str(s) for s in np.atleast_1d(self.stop_reason)], k),
            }
        )
        if self.smallest is None:
            return frame
        parts = {"largest": frame, "smallest": self.smallest.to_frame()}
        for end, part in parts.items():
            part.insert(1, "end", end)
        both: pd.DataFrame = pandas.concat(parts.values(), ignore_index=True)
        return both

    def plot(self, query: int = 0) -> Figure:
        """Draw the race of one query (``trace=True`` must have been asked for); needs the ``plot`` extra.

        Returns
        -------
        matplotlib.figure.Figure
            The leading atoms' intervals closing round by round, and below them the atoms still in the race.
        """
        from banditmips.plotting import plot_race

        if self.trace is None:
            raise ValueError("there is no trace to draw: search with trace=True")
        return plot_race(self.trace[query] if isinstance(self.trace, tuple) else self.trace)


def padded(k: int, *found: NDArray[Any]) -> Sequence[NDArray[Any]]:
    """Rows and scores, and radii and exactness if given, with nobody behind them where there are fewer than k."""
    pad = k - found[0].size
    nobody = (-1, -np.inf, 0.0, True)
    if pad == 0:
        return found
    return [np.append(a, np.full(pad, one, dtype=a.dtype)) for a, one in zip(found, nobody, strict=False)]


class _OfRadius:
    """A field of a result, made from its scores and their radius (None: exact) when it is first asked for."""

    def __init__(self, name: str, make: Callable[[NDArray[Any], NDArray[Any] | None], NDArray[Any]]) -> None:
        self._name = name
        self._make = make

    def __get__(self, result: SearchResult | None, owner: type[SearchResult]) -> NDArray[Any]:
        if result is None:
            raise AttributeError(f"{self._name} is a field of a result, not of {owner.__name__}")
        made = result.__dict__[self._name] = self._make(result.scores, result.__dict__["_radius"])
        return made


class _OfCount:
    """The multiplies of a result, counted when they are first asked for."""

    def __get__(self, result: SearchResult | None, owner: type[SearchResult]) -> Any:
        if result is None:
            raise AttributeError(f"n_multiplies is a field of a result, not of {owner.__name__}")
        counted = result.__dict__["n_multiplies"] = result.__dict__["_count"]()
        result.__dict__.pop("_count", None)  # it holds the atoms
        return counted


_FROM_RADIUS: dict[str, Callable[[NDArray[Any], NDArray[Any] | None], NDArray[Any]]] = {
    "lower": lambda scores, radius: scores.copy() if radius is None else scores - radius,
    "upper": lambda scores, radius: scores.copy() if radius is None else scores + radius,
    "exact": lambda scores, radius: np.full(scores.shape, radius is None),
}
# A field that a result has comes before these. They are set here because the dataclass would take them for defaults.
for _name, _make in _FROM_RADIUS.items():
    setattr(SearchResult, _name, _OfRadius(_name, _make))
SearchResult.n_multiplies = _OfCount()
