"""Kinds of plain searches, which one compiled call answers from the second on: how they are made and found again."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditmips._result import SearchResult, StopReason
from banditmips._validate import Options
from banditmips.core.plain import PlainKind
from banditmips.core.scored import PlainScores
from banditmips.core.scored_batch import ScoresBatch
from banditmips.race.atom_set import AtomSet
from banditmips.race.past import Past
from banditmips.race.scored import prepare_scores
from banditmips.race.situation import FEW_ENTRIES

__all__ = ["batch_kind", "plain_kinds", "put_first", "scores_kind", "settings_of", "use_till_next_race"]

_MOST_PLAIN = 16
"""Kinds that are found again one after another, the last first."""
plain_kinds: list[PlainKind] = []
"""Those of bare arrays."""


def settings_of(
    fields: dict[str, Any], asked: tuple[Any, ...], k: int, options: Options, atoms: AtomSet, checked: bool
) -> tuple[Any, ...]:
    """What a kind of search is made of; `fields` are those of its results that never change."""
    store = atoms.store
    fields |= {"checked": checked, "_radius": None, "seed": options.seed, "atoms_shape": store.shape}
    return asked, store.shape, store.dtype.num, k, options.absolute, FEW_ENTRIES, SearchResult, fields


def put_first(kind: PlainKind, kinds: list[PlainKind]) -> None:
    """Put a kind of search before those that are remembered, and forget those that nobody uses any more."""
    kinds[:] = [kind, *(one for one in kinds if one.n_uses != 0)]
    del kinds[_MOST_PLAIN:]


def use_till_next_race(kind: PlainKind, kinds: list[PlainKind], past: Past) -> None:
    """Use a kind of search, which has answered one, for all others; or for those that are to do without a race."""
    if not past.allows_races:
        kind.n_uses = past.n_left_out - 1
        past.leave_out(past.n_left_out)
    put_first(kind, kinds)


def scores_kind(
    atom_set: AtomSet, dtype: np.dtype[Any], k: int, options: Options, asked: tuple[Any, ...], checked: bool
) -> PlainScores | None:
    """What answers queries of a type by scores that follow from all products; None where these cannot tell them."""
    fields = {"n_rounds": 0, "stop_reason": StopReason.FINISHED_EXACTLY, "delta_spent": 0.0}
    asked, shape, _, *others = settings_of(fields, asked, k, options, atom_set, checked)
    kind = PlainScores(asked, shape, dtype.num, *others)
    return kind if prepare_scores(kind, atom_set, k, options) else None


def batch_kind(
    atom_set: AtomSet, dtype: np.dtype[Any], m: int, k: int, options: Options, asked: tuple[Any, ...], checked: bool
) -> ScoresBatch | None:
    """The same for batches of so many queries."""
    fields = {"stop_reason": (StopReason.FINISHED_EXACTLY,) * m}
    asked, shape, _, *others = settings_of(fields, asked, k, options, atom_set, checked)
    kind = ScoresBatch(asked, shape, dtype.num, *others)
    kind.n_queries = m
    return kind if prepare_scores(kind, atom_set, k, options) else None
