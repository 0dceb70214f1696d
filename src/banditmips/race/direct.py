"""Plain queries, which most searches are: straight to the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.core.answer import answer_survivors
from banditmips.core.certain import ScoreMap
from banditmips.core.direct import Direct, PlainQuery, best_of_all
from banditmips.core.exact import RowsExact
from banditmips.core.loop import Limits, Outcome
from banditmips.core.records import Round, StopReason
from banditmips.core.survivors import Survivors
from banditmips.race.costs import costs
from banditmips.race.full import can_use_blas
from banditmips.race.plan import SamplingPlan, code_times
from banditmips.race.query import known_of
from banditmips.race.rules import least_sample

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["Answer", "DirectSearch", "plain_row"]

_PLAIN = {"epsilon": 0.0, "objective": "inner_product", "sampling": "auto", "replacement": False, "minimise": "time"}


class Answer:
    """What came of a plain query: rows and exact scores, best first, and what they took."""

    __slots__ = (
        "delta_spent",
        "indices",
        "n_multiplies",
        "n_raced",
        "n_rounds",
        "n_survivors",
        "rounds",
        "scores",
        "stop_reason",
    )

    def __init__(
        self,
        found: tuple[NDArray[np.int64], NDArray[np.float64]],
        n_multiplies: int,
        n_survivors: int,
        stop_reason: StopReason,
        n_rounds: int = 0,
        delta_spent: float = 0.0,
    ) -> None:
        self.indices, self.scores = found
        self.n_multiplies, self.n_survivors, self.stop_reason = n_multiplies, n_survivors, stop_reason
        self.n_rounds, self.delta_spent = n_rounds, delta_spent
        self.rounds: list[Round] = []
        self.n_raced = n_survivors


def plain_row(queries: Any, d: int) -> TypeGuard[NDArray[Any]]:
    """Whether these are one row of native floats."""
    return (
        type(queries) is np.ndarray
        and queries.ndim == 1
        and queries.size == d
        and queries.dtype in (np.float32, np.float64)
        and queries.dtype.isnative
        and queries.flags.c_contiguous
    )


class DirectSearch:
    """Plain queries for one set of atoms (or one shape of bare arrays), one k and one set of options.

    Attributes
    ----------
    serves : bool
        Whether these atoms and options are of the plain kind.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options) -> None:
        self._k, self.options = k, options
        self.serves = self._is_plain(atoms, k, options)
        if not self.serves:
            return
        store, here = atoms.store, costs()
        assert isinstance(store, DenseStore)
        assert store.rows is not None
        n, d = store.shape
        self._direct = self._times = None
        if atoms.codes is None:
            plan = SamplingPlan(here, n, d, store.dtype.itemsize)
            # Whether sampling pays has to be asked for each query, where it can.
            self.serves = not plan.can_pay(least_sample(options, k, n))
            return
        times = code_times(here, atoms.codes, n, store.dtype.itemsize, contiguous=True, by_blas=True)
        if times.full > times.prepare + n * atoms.codes.n_first * times.cell + k * times.row:
            self._times = times
            self._direct = Direct(store.rows, known_of(atoms), (k, options.absolute, options.delta), times)

    @staticmethod
    def _is_plain(atoms: AtomSet, k: int, options: Options) -> bool:
        return (
            isinstance(atoms.store, DenseStore)
            and can_use_blas(atoms.store.array)
            and atoms.store.array.flags.c_contiguous
            and 1 <= k <= atoms.store.shape[0]
            and atoms.removed is None
            and atoms.buckets is None
            and atoms.cache is None
            and (atoms.facts is not None or atoms.codes is None)
            and (options.bound == "auto" or (options.bound == "codes" and atoms.codes is not None))
            and options.value_range is None
            and options.budget is None
            and options.rescore
            and options.n_jobs == 1
            and options.delta > 0.0
            and all(getattr(options, name) == value for name, value in _PLAIN.items())
        )

    def answer(self, atoms: AtomSet, row: NDArray[Any]) -> Answer | None:
        """Answer a query; None where it turns out not to be plain."""
        query = PlainQuery(row)
        if not query.is_fine:
            return None
        if self._direct is None:
            return self._by_products(atoms, query, None)
        alive = self._direct.survivors(query)
        if self._direct.few(alive):
            found = self._direct.finish(alive, query)
            if found is None:
                return None
            best, n_read = found
            return Answer((best.indices, best.scores), n_read * query.n_nonzero, alive.n, StopReason.FINISHED_EXACTLY)
        return self._by_codes(atoms, query, alive)

    def _by_products(self, atoms: AtomSet, query: PlainQuery, begun: Outcome | None) -> Answer | None:
        """All products; `begun` is what came before."""
        store = atoms.store
        assert isinstance(store, DenseStore)
        assert store.rows is not None
        n = store.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            best = best_of_all(store.array, store.rows, query, self._k, self.options.absolute)
        if best is None:
            return None
        found, multiplies = (best.indices, best.scores), n * query.n_nonzero
        if begun is None:
            return Answer(found, multiplies, n, StopReason.FINISHED_EXACTLY)
        n_left, n_rounds = begun.n_survivors, begun.n_rounds
        answer = Answer(found, begun.n_multiplies + multiplies, n_left, StopReason.FINISHED_EXACTLY, n_rounds)
        answer.rounds, answer.n_raced = begun.rounds, begun.n_raced
        return answer

    def _by_codes(self, atoms: AtomSet, query: PlainQuery, alive: Survivors) -> Answer | None:
        store, times = atoms.store, self._times
        assert isinstance(store, DenseStore)
        assert store.rows is not None
        assert times is not None
        exact = RowsExact(store.rows, query.exact, 0, _AS_IT_IS, None, _give_up)
        exact.row_cost = query.n_nonzero
        try:
            outcome = answer_survivors(
                known_of(atoms),
                alive,
                query.exact,
                _AS_IT_IS,
                exact,
                Limits(self.options.delta, traced=self.options.trace),
                times,
            )
            if outcome.handed_over:
                return self._by_products(atoms, query, outcome)
            found, multiplies = outcome.best_exactly(self._k, self.options.absolute, exact)
        except _NotFiniteError:
            return None
        spent = outcome.delta_spent
        answer = Answer(found, multiplies, outcome.n_survivors, outcome.stop_reason, outcome.n_rounds, spent)
        answer.rounds, answer.n_raced = outcome.rounds, outcome.n_raced
        return answer


_AS_IT_IS = ScoreMap()


class _NotFiniteError(Exception):
    """A score that is not finite: somebody else says why."""


def _give_up(row: int) -> None:
    raise _NotFiniteError
