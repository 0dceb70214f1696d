"""Races on the codes of atoms in memory, whatever else is asked: what does not depend on the query is prepared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, PartStore
from banditmips.atoms.packed import PackedStore
from banditmips.core.answer import Times, answer
from banditmips.core.certain import MeasuredQuery
from banditmips.core.exact import Exact, RowsExact
from banditmips.core.loop import Limits, Outcome
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet, candidates_of
from banditmips.race.costs import costs
from banditmips.race.full import can_use_blas
from banditmips.race.known import index_rows, known_of, norms_of
from banditmips.race.plan import NO_TIMES, code_times, file_times, is_worth_a_race
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import FEW_ENTRIES, WITHOUT_LENGTHS, less_its_level, map_of_products, map_of_terms

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["CodeSearch", "code_search", "race_times", "rescore", "takes_codes"]

_MOST_KEPT = 64
"""Combinations of k and options that are remembered for one set of atoms."""
_USUAL_NORMS = (1e-100, 1e100)
"""Of atoms whose cosines need no query of another length: neither sums nor inverse norms overflow, or lose digits."""


def takes_codes(atoms: AtomSet, options: Options) -> bool:
    """Whether a race is one on codes."""
    return (
        atoms.codes is not None
        and options.bound in ("auto", "codes")
        and options.sampling == "auto"
        and not options.replacement
        and atoms.buckets is None
        and options.objective != "neg_l1"
        and (atoms.facts is not None or OBJECTIVE_CODES[options.objective] == PRODUCT)
    )


def race_times(atoms: AtomSet, options: Options, n_sharing: int = 1) -> Times:
    """What the steps of a race on codes take, for one of so many queries; zeros where that does not matter."""
    if options.minimise != "time":
        return NO_TIMES
    store, codes = atoms.store, atoms.codes
    assert codes is not None
    by_row = store.by_row if isinstance(store, PackedStore) else store
    if isinstance(by_row, PartStore):
        return file_times(costs(), codes, by_row, n_sharing)
    array = store.array if isinstance(store, DenseStore) else None
    by_blas = array is not None and can_use_blas(array)
    contiguous = array is None or array.strides[1] == array.itemsize
    return code_times(costs(), codes, store.shape[0], store.dtype.itemsize, contiguous, by_blas, n_sharing)


def rescore(outcome: Outcome, k: int, options: Options, exact: Exact) -> None:
    """Leave the k best, with exact scores where the budget allows for them."""
    # What is returned is settled here: the others leave before scores of two kinds are compared.
    best = outcome.best(k, options.absolute)
    outcome.survivors, outcome.scores = outcome.survivors[best], outcome.scores[best]
    outcome.radius, outcome.exact = outcome.radius[best], outcome.exact[best]
    if outcome.exact.all():
        return
    left = np.flatnonzero(~outcome.exact)
    rows = outcome.survivors[left]
    cost = exact.cost(rows)
    if options.budget is None or outcome.n_multiplies + cost <= options.budget:
        outcome.scores[left] = exact.scores(rows)
        outcome.radius[left] = 0.0
        outcome.exact[left] = True
        outcome.n_multiplies += cost


def code_search(atoms: AtomSet, k: int, options: Options) -> CodeSearch:
    """What was prepared for such searches of these atoms, or is now."""
    kept: dict[tuple[int, int], CodeSearch] = atoms.once("code searches", dict)
    search = kept.get((k, id(options)))
    if search is None or search.options is not options:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        search = kept[k, id(options)] = CodeSearch(atoms, k, options)
    return search


class CodeSearch:
    """Races on the codes of atoms in memory, for one k and one set of options.

    The atoms come with each query: what is prepared for them must not keep them alive.

    Attributes
    ----------
    serves : bool
        Whether these atoms and options are of the kind.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options) -> None:
        self.options, self._k = options, k
        self._objective, self._code = options.objective, OBJECTIVE_CODES[options.objective]
        self.serves = (
            atoms.facts is not None
            and takes_codes(atoms, options)
            and options.delta > 0.0
            and index_rows(atoms) is not None
            and (self._objective not in WITHOUT_LENGTHS or atoms.once("usual norms", lambda: _are_usual(atoms)))
        )
        if self.serves:
            self._limits = Limits(options.delta, options.epsilon, options.budget, options.trace)
            self._times = race_times(atoms, options)

    def outcome(
        self, atoms: AtomSet, row: NDArray[Any], excluded: NDArray[np.bool_] | None, n_sharing: int = 1
    ) -> Outcome | None:
        """Race; None for queries that are out of the ordinary, and where a race cannot pay."""
        if row.dtype not in (np.float32, np.float64) or not row.flags.c_contiguous or not row.dtype.isnative:
            return None
        query, n = MeasuredQuery(row), atoms.store.shape[0]
        candidates = candidates_of(n, excluded, atoms.removed)
        n_candidates = n if candidates is None else candidates.size
        times = self._times if n_sharing == 1 else race_times(atoms, self.options, n_sharing)
        if not query.is_fine or not self._pays(atoms, n_candidates, n_sharing, times):
            return None
        vector = query.exact
        if self._objective == "correlation":
            vector = less_its_level(vector)
            query = query if vector is query.exact else MeasuredQuery(vector)
        # Of a query with few entries only their columns are read; that is done elsewhere.
        if self._code == PRODUCT and FEW_ENTRIES * query.n_nonzero <= vector.size:
            return None
        rows, terms = index_rows(atoms), map_of_terms(atoms, self._objective, vector)
        assert rows is not None
        scores = map_of_products(atoms, self._objective, vector, terms)
        assert scores is not None
        exact = RowsExact(rows, vector, self._code, terms, None, _give_up)
        exact.row_cost = query.n_nonzero if self._code == PRODUCT else vector.size
        alive = Survivors(candidates, n_candidates, self._k, self.options.absolute)
        try:
            # Scores that overflow are caught where they become exact.
            with np.errstate(over="ignore", invalid="ignore"):
                outcome: Outcome = answer(known_of(atoms), alive, vector, scores, exact, self._limits, times)
                if self.options.rescore and not outcome.handed_over:
                    n_before = outcome.n_multiplies
                    rescore(outcome, self._k, self.options, exact)
                    outcome.time_spent += (outcome.n_multiplies - n_before) / max(exact.row_cost, 1) * times.row
        except _NotFiniteError:
            return None
        return outcome

    def _pays(self, atoms: AtomSet, n_candidates: int, n_sharing: int, times: Times) -> bool:
        """Whether there is anybody to leave out, and all products take longer than a race at its best."""
        if n_candidates <= self._k:
            return False
        assert atoms.codes is not None
        return times.full == 0.0 or is_worth_a_race(costs(), times, atoms.codes, n_candidates, self._k, n_sharing)


def _are_usual(atoms: AtomSet) -> bool:
    norms = norms_of(atoms)
    low, high = _USUAL_NORMS
    return bool((((norms > low) & (norms < high)) | (norms == 0.0)).all())


class _NotFiniteError(Exception):
    """A score that is not finite: the long way says why."""


def _give_up(row: int) -> None:
    raise _NotFiniteError
