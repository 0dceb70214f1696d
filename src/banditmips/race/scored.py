"""What a plain search needs for scores that follow from products with all atoms (`core.scored`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, map_of
from banditmips.atoms.errors import BadAtomError
from banditmips.core.near_best import ROUNDING_OF_DIFFERENCES
from banditmips.core.passes import fills_products, pass_dtype
from banditmips.core.plain import BytesFirst
from banditmips.core.rows import Rows
from banditmips.core.scored import ScoredAtoms
from banditmips.core.scored_batch import ScoresBatch
from banditmips.race.batch import asks_for_time
from banditmips.race.costs import costs
from banditmips.race.full import BY_COLUMNS, can_use_blas, sweeps_columns
from banditmips.race.known import index_rows, norms_of, spreads_of
from banditmips.race.passes import pass_products
from banditmips.race.plan import TOGETHER
from banditmips.race.ranking import Factors, Ranking, lengths_of
from banditmips.race.rounded import Ranked, Scores, Settings, are_peaked, close_by_bytes, is_cheap_to_try, most_peaked
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import MOST_LEVEL, WITHOUT_LENGTHS, good_exponents, less_its_level, less_their_levels
from banditmips.race.together import MOST_CLOSE, Together
from banditmips.race.wanted import facts_of_wanted

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.core.scored import PlainScores
    from banditmips.race.atom_set import AtomSet

__all__ = ["bytes_first", "has_scores", "prepare_scores"]

_Close = tuple[NDArray[np.int64], NDArray[np.int64]] | None
"""What `BytesFirst.close` gives."""


def has_scores(atoms: AtomSet, options: Options) -> bool:
    """Whether plain searches with these options can be answered by all products, after a race or not."""
    rows, is_bare = index_rows(atoms), atoms.facts is None
    if rows is None or atoms.removed is not None or (is_bare and type(atoms.store) is not DenseStore):
        return False
    if any(map_of(array) is not None for array in rows.arrays):
        return False
    if options.objective == "neg_l1" or options.progress or options.trace or options.ends != "largest":
        return False
    return asks_for_time(atoms, options)


def prepare_scores(kind: PlainScores, atoms: AtomSet, k: int, options: Options) -> bool:
    """Give a kind of search what it needs to know of the atoms; False where products cannot tell their scores.

    Of bare arrays, of which there are no facts, it is to know nothing but their type and order, nor to keep them alive.
    """
    rows, objective = index_rows(atoms), options.objective
    assert rows is not None
    array, dtype, is_product = rows.arrays[0], pass_dtype(rows), objective == "inner_product"
    ranking, is_bare = Ranking(atoms, rows, objective, dtype), atoms.facts is None
    known = None if is_bare else ranking.by_products(None)
    if known is None and not is_bare:
        return False
    kind.atom_type, kind.by_row = array.dtype.num, bool(array.flags.c_contiguous)
    kind.single, kind.objective = dtype == np.float32, OBJECTIVE_CODES[objective]
    kind.needs_squares, kind.scales, kind.lost = not is_product, objective in WITHOUT_LENGTHS, 0.0
    kind.low, kind.high = (-1.0, np.inf) if is_product else ranking.fine_norms
    kind.most_close, kind.most_level = rows.n, MOST_LEVEL
    if objective == "neg_sqeuclidean":
        kind.lost = ROUNDING_OF_DIFFERENCES * float(np.finfo(np.float64).eps)
        kind.most_close = int(k + MOST_CLOSE * rows.n)
    kind.lengths = partial(_lengths, objective)
    kind.level = _less_its_level if objective == "correlation" else None
    kind.learn, kind.measure_some = partial(_learn, objective, dtype), partial(_measure_some, objective)
    if known is not None:
        kind.known = _scored_atoms(atoms, rows, known, objective, dtype)
    if isinstance(kind, ScoresBatch):
        kind.multiply = partial(_multiply, objective)
        kind.lengths = partial(lengths_of, objective=objective)
        kind.level = less_their_levels if objective == "correlation" else None
        kind.bytes_first = bytes_first(rows, kind.n_queries, k, options)
        kind.by_columns = Together(atoms, k, options).exact_by_columns(kind.n_queries)
        if is_bare and objective == "correlation":
            kind.bytes_first.most_peaked = 0.0  # of means bytes tell nothing
        elif not is_product:
            own = None if known is None else (rows, ranking, known)
            kind.bytes_first.close = partial(_close_by_scores, objective, own, _settings(k, options))
    else:
        _choose_ways(kind, rows, k, objective, is_bare)
    return True


def _scored_atoms(atoms: AtomSet, rows: Rows, known: Factors, objective: str, dtype: np.dtype[Any]) -> ScoredAtoms:
    """The atoms of an index, and how scores follow from products with them."""
    scored, facts = ScoredAtoms(rows), atoms.facts
    assert facts is not None
    _follow(scored, known, objective, dtype)
    if objective in WITHOUT_LENGTHS:
        scored.norms = norms_of(atoms) if objective == "cosine" else spreads_of(atoms)
        scored.exponent = int(good_exponents(0.0, facts.scale))
    if objective == "correlation":
        scored.means = facts.means
    return scored


def _follow(scored: ScoredAtoms, known: Factors, objective: str, dtype: np.dtype[Any]) -> None:
    """Say how scores follow from products of this type."""
    scored.factors, scored.offsets = _of_type(known.factors, dtype), _of_type(known.offsets, dtype)
    with np.errstate(over="ignore"):
        scored.squares, scored.relative = _of_type(known.squares, dtype), _of_type(known.relative, dtype)
    scored.longest = known.longest
    if objective != "inner_product":
        scored.wider, scored.of_longest, scored.of_centre, scored.of_part = known.widths(dtype, scored.rows.d)


def _learn(
    objective: str,
    dtype: np.dtype[Any],
    scored: ScoredAtoms,
    totals: NDArray[Any] | None,
    squares: NDArray[Any],
) -> bool:
    """Say how scores follow from products with bare atoms, by their rough sums; False where nobody knows."""
    found = Ranking(None, scored.rows, objective, dtype).by_products((totals, squares))
    if found is not None:
        _follow(scored, found, objective, dtype)
    return found is not None


def _measure_some(objective: str, scored: ScoredAtoms, close: NDArray[np.int64]) -> bool:
    """Find norms, and for correlations means, of rows that are close; False where others have to say what they are."""
    try:
        known = facts_of_wanted(scored.rows, close)
        scored.norms = known.norms(objective)
    except BadAtomError:
        return False
    scored.means = known.facts.means[known.places] if objective == "correlation" else None
    scored.exponent = int(good_exponents(0.0, known.facts.scale))
    return True


def bytes_first(rows: Rows, n_queries: int, k: int, options: Options) -> BytesFirst:
    """What asks products of bytes with such atoms for the best of so many queries by inner products."""
    asked = BytesFirst()
    is_for_bytes = n_queries <= TOGETHER
    asked.most_peaked = most_peaked(rows, n_queries, k, options.absolute, options.delta) if is_for_bytes else 0.0
    asked.delta = options.delta
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
    objective: str,
    known: tuple[Rows, Ranking, Factors] | None,
    settings: Settings,
    atoms: NDArray[Any],
    queries: NDArray[Any],
    norms: NDArray[np.float64] | None,
    excluded: NDArray[np.bool_] | None,
    looks: bool,
) -> _Close:
    """The same by scores that follow from products; of bare atoms nothing is known but what bytes tell."""
    assert norms is not None
    rows = Rows([atoms]) if known is None else known[0]
    ranking = Ranking(None, rows, objective, pass_dtype(rows)) if known is None else known[1]
    centres = ranking.centres(queries)

    def ranked(squares: NDArray[np.float64], some: NDArray[np.int64]) -> Scores | None:
        if known is None:
            return ranking.by_bytes(squares, some, centres, norms)
        return ranking.of_bytes(known[2], centres, norms, some)

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


def _choose_ways(kind: PlainScores, rows: Rows, k: int, objective: str, is_bare: bool) -> None:
    """Who multiplies the atoms, and whether exact scores of all of them take less."""
    array, here, n_values = rows.arrays[0], costs(), rows.n * rows.d
    readable = all(can_use_blas(one) for one in rows.arrays)
    if rows.are_contiguous:
        are_faster = here.sweeps(n_values) if readable else here.tiles(1, rows.d)
    else:
        are_faster = sweeps_columns(rows, 1)
    if is_bare and kind.needs_squares:
        # They come with products of our own loops, but the sums that correlations need do not with those of columns.
        are_faster = rows.are_contiguous or objective != "correlation"
    if not (are_faster and fills_products(rows)):
        kind.multiply = partial(_multiply_one, objective)
    if not rows.are_contiguous and not (is_bare and kind.scales):
        # What has to be converted for BLAS is not worth it.
        cannot_be_rough = not readable and not are_faster
        by_columns = cannot_be_rough or here.by_columns(rows.n, rows.d, array.itemsize, k)
        kind.by_columns = kind.objective in BY_COLUMNS and rows.are_columns and by_columns


def _of_type(numbers: NDArray[np.float64] | None, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    return None if numbers is None else np.ascontiguousarray(numbers, dtype=dtype)


def _multiply(objective: str, rows: Rows, queries: NDArray[Any], moments: NDArray[np.float64] | None) -> NDArray[Any]:
    """Products of all atoms with queries; and their moments, if wanted."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.ascontiguousarray(pass_products(rows, queries, moments, totals=objective == "correlation"))


def _multiply_one(objective: str, rows: Rows, query: NDArray[Any], moments: NDArray[np.float64] | None) -> NDArray[Any]:
    return np.asarray(_multiply(objective, rows, query[np.newaxis], moments)[0])


def _lengths(objective: str, query: NDArray[Any]) -> tuple[float, float] | None:
    """Mean and norm of a query; None where these are not numbers."""
    found = lengths_of(query[np.newaxis], objective)
    return None if found is None else (float(found[0][0]), float(found[1][0]))


def _less_its_level(query: NDArray[Any]) -> NDArray[np.float64]:
    return less_its_level(query.astype(np.float64))
