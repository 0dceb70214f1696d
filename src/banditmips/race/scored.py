"""What a plain search of an index needs for scores that follow from products with all atoms (`core.scored`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, map_of
from banditmips.core.near_best import ROUNDING
from banditmips.core.passes import fills_products, pass_dtype
from banditmips.core.plain import BytesFirst
from banditmips.core.rows import Rows
from banditmips.core.scored_batch import ScoresBatch
from banditmips.race.batch import asks_for_time
from banditmips.race.costs import costs
from banditmips.race.full import BY_COLUMNS, can_use_blas, sweeps_columns
from banditmips.race.known import index_rows, norms_of, spreads_of
from banditmips.race.passes import pass_products
from banditmips.race.ranking import WIDER, Factors, Ranking, lengths_of
from banditmips.race.rounded import Ranked, Scores, Settings, are_peaked, close_by_bytes, is_cheap_to_try, most_peaked
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import MOST_LEVEL, WITHOUT_LENGTHS, good_exponents, less_its_level, less_their_levels
from banditmips.race.together import MOST_CLOSE

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.core.scored import PlainScores
    from banditmips.race.atom_set import AtomSet

__all__ = ["bytes_first", "has_scores", "prepare_scores"]

_Close = tuple[NDArray[np.int64], NDArray[np.int64]] | None
"""What `BytesFirst.close` gives."""


def has_scores(atoms: AtomSet, options: Options) -> bool:
    """Whether plain searches of an index with these options can be answered by all products, after a race or not."""
    store = atoms.store
    in_memory = type(store) is DenseStore and map_of(store.array) is None and store.rows is not None
    if not in_memory or atoms.facts is None or atoms.removed is not None:
        return False
    if options.objective == "neg_l1" or options.progress or options.ends != "largest":
        return False
    return asks_for_time(atoms, options)


def prepare_scores(kind: PlainScores, atoms: AtomSet, k: int, options: Options) -> bool:
    """Give a kind of search what it needs to know of the atoms; False where products cannot tell their scores."""
    rows, facts, objective = index_rows(atoms), atoms.facts, options.objective
    assert rows is not None
    assert facts is not None
    dtype, is_product = pass_dtype(rows), objective == "inner_product"
    ranking = Ranking(atoms, rows, objective, dtype)
    known = ranking.by_products(None)
    if known is None:
        return False
    kind.rows, kind.single, kind.objective = rows, dtype == np.float32, OBJECTIVE_CODES[objective]
    kind.factors, kind.offsets = _of_type(known.factors, dtype), _of_type(known.offsets, dtype)
    assert known.squares is not None
    with np.errstate(over="ignore"):
        kind.squares = known.squares.astype(dtype)
    kind.longest, kind.wider, kind.lost = known.longest, 1.0 if is_product else WIDER, 0.0
    kind.low, kind.high = (-1.0, np.inf) if is_product else ranking.fine_norms
    kind.most_close, kind.most_level = rows.n, MOST_LEVEL
    if objective == "neg_sqeuclidean":
        kind.lost = 8.0 * ROUNDING * float(np.finfo(np.float64).eps)
        kind.most_close = int(k + MOST_CLOSE * rows.n)
    if objective in WITHOUT_LENGTHS:
        kind.norms = norms_of(atoms) if objective == "cosine" else spreads_of(atoms)
        kind.exponent, kind.lengths = int(good_exponents(0.0, facts.scale)), partial(_lengths, objective)
    if objective == "correlation":
        kind.means, kind.level = facts.means, _less_its_level
    if isinstance(kind, ScoresBatch):
        kind.multiply = partial(_multiply, rows)
        kind.lengths = partial(lengths_of, objective=objective)
        kind.level = less_their_levels if objective == "correlation" else None
        kind.bytes_first = bytes_first(rows, kind.n_queries, k, options)
        if not is_product:
            kind.bytes_first.close = partial(_close_by_scores, rows, ranking, known, _settings(k, options))
    else:
        _choose_ways(kind, rows, k)
    return True


def bytes_first(rows: Rows, n_queries: int, k: int, options: Options) -> BytesFirst:
    """What asks products of bytes with such atoms for the best of so many queries by inner products."""
    asked = BytesFirst()
    asked.most_peaked, asked.delta = most_peaked(rows, n_queries, k, options.absolute, options.delta), options.delta
    asked.close = partial(_close_by_products, _settings(k, options))
    return asked


def _settings(k: int, options: Options) -> Settings:
    return Settings(k, options.absolute, options.delta, options.seed)


def _close_by_products(
    settings: Settings,
    atoms: NDArray[Any],
    queries: NDArray[Any],
    norms: NDArray[np.float64] | None,
    excluded: NDArray[np.bool_] | None,
    looks: bool,
) -> _Close:
    """Rows that can be among the best by products of bytes. Atoms come with the queries: nobody keeps them alive."""
    return _close_of_all(Rows([atoms]), queries, settings, (None, excluded), looks)


def _close_by_scores(
    rows: Rows,
    ranking: Ranking,
    known: Factors,
    settings: Settings,
    atoms: NDArray[Any],
    queries: NDArray[Any],
    norms: NDArray[np.float64] | None,
    excluded: NDArray[np.bool_] | None,
    looks: bool,
) -> _Close:
    """The same by scores that follow from products."""
    assert norms is not None
    centres = ranking.centres(queries)

    def ranked(_: NDArray[np.float64], some: NDArray[np.int64]) -> Scores:
        return ranking.of_bytes(known, centres, norms, some)

    return _close_of_all(rows, queries, settings, (ranked, excluded), looks)


def _close_of_all(
    rows: Rows,
    queries: NDArray[Any],
    settings: Settings,
    ranked: tuple[Ranked | None, NDArray[np.bool_] | None],
    looks: bool,
) -> _Close:
    """Do that for queries whose entries have been looked at."""
    asked = len(queries), settings.k, settings.absolute, settings.delta
    if looks and not is_cheap_to_try(rows, len(queries)) and are_peaked(rows, np.zeros(1), *asked):
        return None
    found = close_by_bytes(rows, queries, settings, ranked[0], looks, ranked[1])
    return None if found is None else found[:2]


def _choose_ways(kind: PlainScores, rows: Rows, k: int) -> None:
    """Who multiplies the atoms, and whether exact scores of all of them take less."""
    array, here, n_values = rows.arrays[0], costs(), rows.n * rows.d
    readable = can_use_blas(array)
    if rows.are_contiguous:
        are_faster = here.sweeps(n_values) if readable else here.tiles(1)
    else:
        are_faster = sweeps_columns(rows, 1)
    if not (are_faster and fills_products(rows)):  # our own loops
        kind.multiply = partial(_multiply_one, rows)
    if not rows.are_contiguous:
        # What has to be converted for BLAS is not worth it.
        cannot_be_rough = not readable and not are_faster
        by_columns = cannot_be_rough or here.by_columns(rows.n, rows.d, array.itemsize, k)
        kind.by_columns = kind.objective in BY_COLUMNS and rows.are_columns and by_columns


def _of_type(numbers: NDArray[np.float64] | None, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    return None if numbers is None else np.ascontiguousarray(numbers, dtype=dtype)


def _multiply(rows: Rows, queries: NDArray[Any]) -> NDArray[Any]:
    """Products of all atoms with queries."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.ascontiguousarray(pass_products(rows, queries))


def _multiply_one(rows: Rows, query: NDArray[Any]) -> NDArray[Any]:
    return _multiply(rows, query[np.newaxis])


def _lengths(objective: str, query: NDArray[Any]) -> tuple[float, float] | None:
    """Mean and norm of a query; None where these are not numbers."""
    found = lengths_of(query[np.newaxis], objective)
    return None if found is None else (float(found[0][0]), float(found[1][0]))


def _less_its_level(query: NDArray[Any]) -> NDArray[np.float64]:
    return less_its_level(query.astype(np.float64))
