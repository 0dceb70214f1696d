"""Races on the codes of atoms in memory, whatever else is asked: what does not depend on the query is prepared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import PartStore
from banditmips.atoms.packed import PackedStore
from banditmips.core.answer import Times, answer_survivors, leave_certain
from banditmips.core.certain import MeasuredQuery
from banditmips.core.exact import RowsExact
from banditmips.core.loop import Limits
from banditmips.core.outcome import Outcome
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet, candidates_of
from banditmips.race.costs import costs
from banditmips.race.full import how_they_lie
from banditmips.race.known import index_rows, known_of, norms_of
from banditmips.race.past import Past
from banditmips.race.plan import NO_TIMES, code_times, file_times, is_worth_a_race
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import FEW_ENTRIES, WITHOUT_LENGTHS, less_its_level, map_of_products, map_of_terms

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["CodeSearch", "code_search", "may_pay", "race_times", "takes_codes"]

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
    store, codes, here = atoms.store, atoms.codes, costs()
    assert codes is not None
    by_row = store.by_row if isinstance(store, PackedStore) else store
    if isinstance(by_row, PartStore):
        return file_times(here, codes, by_row, n_sharing)
    by_blas, contiguous = how_they_lie(index_rows(atoms))

    def times() -> Times:
        return code_times(here, codes, store.shape[0], store.dtype.itemsize, contiguous, by_blas, n_sharing)

    return atoms.remembered("race times", n_sharing, here, times)


def may_pay(atoms: AtomSet, times: Times, n: int, k: int, n_sharing: int) -> bool:
    """Whether the products with n of the atoms, shared by so many queries, take longer than a race at its best."""
    assert atoms.codes is not None
    return is_worth_a_race(costs(), times, atoms.codes, n, k, n_sharing)


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

    The set of atoms comes with each query: what is prepared for it must not keep it alive.

    Attributes
    ----------
    serves : bool
        Whether these atoms and options are of the kind.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options) -> None:
        self.options, self._k = options, k
        self._past: dict[int, Past] = {}
        self._objective, self._code = options.objective, OBJECTIVE_CODES[options.objective]
        rows = index_rows(atoms)
        self.serves = (
            atoms.facts is not None
            and takes_codes(atoms, options)
            and options.delta > 0.0
            and rows is not None
            and (self._objective not in WITHOUT_LENGTHS or atoms.once("usual norms", lambda: _are_usual(atoms)))
        )
        if self.serves:
            assert rows is not None
            self._rows, self._known = rows, known_of(atoms)
            self._limits = Limits(options.delta, options.epsilon, options.budget, options.trace)
            self._times = race_times(atoms, options)
        # Where multiplies, rounds or a budget are asked for, nothing is left out.
        asks_for_time = options.minimise == "time" and options.budget is None and not options.trace
        self._forgoes = self.serves and asks_for_time and options.rescore

    def past(self, n_queries: int = 1) -> Past:
        """What races of such searches have come to, where so many queries came together."""
        past = self._past.get(n_queries)
        if past is None:
            if len(self._past) >= _MOST_KEPT:
                self._past.clear()
            past = self._past[n_queries] = Past()
        return past

    def may_race(self) -> bool:
        """Whether the next query alone may race; that it may not is written down."""
        past = self.past()
        if past.allows_races:
            return True
        past.leave_out()
        return False

    def write_down(self, outcome: Outcome | None, before: float = 0.0) -> None:
        """Write down what came of the race of a query alone, and of what was done `before`, which took so long."""
        if outcome is not None and self._forgoes:
            saved = 0.0 if outcome.handed_over else self._times.full
            self.past().add(saved - outcome.time_spent - before)

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
        alive = Survivors(candidates, n_candidates, self._k, self.options.absolute)
        return self.race(atoms, query, alive, times, are_bounded=False)

    def race(
        self, atoms: AtomSet, query: MeasuredQuery, alive: Survivors, times: Times, are_bounded: bool = True
    ) -> Outcome | None:
        """Race these atoms, unless a score is not finite: the long way says why.

        Where they are bounded, certain bounds have left them, with where their scores lie.
        """
        vector, known = query.exact, self._known
        terms = map_of_terms(atoms, self._objective, vector)
        scores = map_of_products(atoms, self._objective, vector, terms)
        assert scores is not None
        exact = RowsExact(self._rows, vector, self._code, terms, None, _give_up)
        exact.row_cost = query.n_nonzero if self._code == PRODUCT else vector.size
        try:
            n_bounded = 0 if are_bounded else alive.n
            if not are_bounded:
                leave_certain(known, alive, query, scores)
            outcome = answer_survivors(known, alive, vector, scores, exact, self._limits, times)
            outcome.time_spent += n_bounded * costs().bound
            if self.options.rescore and not outcome.handed_over:
                n_before = outcome.n_multiplies
                outcome.rescore(self._k, self.options.absolute, exact, self.options.budget)
                outcome.time_spent += (outcome.n_multiplies - n_before) / max(exact.row_cost, 1) * times.row
        except _NotFiniteError:
            return None
        return outcome

    def pays(self, atoms: AtomSet) -> bool:
        """Whether all products of one query take longer than a race of all atoms at its best."""
        return self._pays(atoms, atoms.store.shape[0], 1, self._times)

    def _pays(self, atoms: AtomSet, n_candidates: int, n_sharing: int, times: Times) -> bool:
        """Whether there is anybody to leave out, and all products take longer than a race at its best."""
        if n_candidates <= self._k:
            return False
        return times.full == 0.0 or may_pay(atoms, times, n_candidates, self._k, n_sharing)


def _are_usual(atoms: AtomSet) -> bool:
    norms = norms_of(atoms)
    low, high = _USUAL_NORMS
    return bool((((norms > low) & (norms < high)) | (norms == 0.0)).all())


class _NotFiniteError(Exception):
    """A score that is not finite: the long way says why."""


def _give_up(row: int) -> None:
    raise _NotFiniteError
