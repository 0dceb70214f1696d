"""Exact scores of pairs of a row and a query, to the bit those of each query alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.core.passes import pass_dtype
from banditmips.core.rows import Rows
from banditmips.core.statistics import PRODUCT
from banditmips.race.full import exact_sums
from banditmips.race.known import inverse, norms_of, spreads_of
from banditmips.race.ranking import lengths_of
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import FEW_ENTRIES, WITHOUT_LENGTHS, good_exponents
from banditmips.race.wanted import Wanted, facts_of_wanted

if TYPE_CHECKING:
    from banditmips.race.atom_set import AtomSet

__all__ = ["Measured", "exact_scores"]


class Measured(NamedTuple):
    """What is to know of the queries of a batch: arrays of shape (m,).

    Attributes
    ----------
    norms, largest
        And the sizes of their largest entries.
    n_nonzero
        Entries that are multiplied.
    fine
        Which of them are served: not those with few entries, nor with numbers that are hard to square.
    centres
        By what the atoms' offsets are multiplied: their means, for correlations.
    """

    norms: NDArray[np.float64]
    largest: NDArray[np.float64]
    n_nonzero: NDArray[np.int64]
    fine: NDArray[np.bool_]
    centres: NDArray[np.float64]

    def at(self, places: Any) -> Measured:
        """What is to know of some of them."""
        return Measured(*(numbers[places] for numbers in self))


def exact_scores(
    atoms: AtomSet, rows: Rows, objective: str, queries: NDArray[Any], measured: Measured, wanted: Wanted
) -> NDArray[np.float64] | None:
    """Exact scores of the rows that are wanted for each query; None where a query's length is not a number.

    `rows` are those of the atoms, as they are or converted.
    """
    code, (close, begins) = OBJECTIVE_CODES[objective], wanted
    if objective not in WITHOUT_LENGTHS:
        return _sums(rows, queries, None, wanted, measured, code)
    facts, places = atoms.facts, close
    if facts is None:
        known = facts_of_wanted(rows, close)
        rows, close, facts, places = known.rows, known.close, known.facts, known.places
        norms = known.norms(objective)
    else:
        norms = (norms_of if objective == "cosine" else spreads_of)(atoms)[close]
    exponents = good_exponents(measured.largest, facts.scale)
    lengths = lengths_of(queries, objective, measured.centres)
    if lengths is None:
        return None
    # A power of two takes nothing from the digits.
    means, sizes = np.ldexp(lengths[0], exponents), np.ldexp(lengths[1], exponents)
    place = np.repeat(np.arange(len(queries)), np.diff(begins))
    scores: NDArray[np.float64]
    if pass_dtype(rows) == queries.dtype == np.float32:
        # Nothing is too large or too small in double precision, before or after.
        scores = np.ldexp(_sums(rows, queries, None, (close, begins), measured, code), exponents[place])
    else:
        scores = _sums(rows, queries, np.ldexp(1.0, exponents), (close, begins), measured, code)
    factors = inverse(norms * sizes[place])
    scores *= factors
    if objective == "correlation":
        scores += -rows.d * means[place] * facts.means[places] * factors
    return scores


def _sums(
    rows: Rows,
    queries: NDArray[Any],
    scales: NDArray[np.float64] | None,
    wanted: Wanted,
    measured: Measured,
    code: int,
) -> NDArray[np.float64]:
    """Exact sums of the rows that are wanted for each query, times its scale, to the bit those of it alone."""
    close, begins = wanted
    sums = exact_sums(rows, queries, scales, close, begins, code)
    if code == PRODUCT:
        # Alone, a query with few entries has nothing but their products added up.
        for i in np.flatnonzero(FEW_ENTRIES * measured.n_nonzero <= rows.d):
            columns, some = np.flatnonzero(queries[i]), slice(begins[i], begins[i + 1])
            entries = queries[i, columns].astype(np.float64) * (1.0 if scales is None else scales[i])
            sums[some] = rows.scores(close[some], columns, entries, code)
    return sums
