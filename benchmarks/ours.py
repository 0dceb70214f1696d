"""Our own ways of answering, and the authors' method with the settings of their paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import banditmips as bm
from benchmarks.goals import Goals
from benchmarks.searchers import Problem, Searcher

__all__ = ["Ours", "build_authors"]

_PAPER: Mapping[str, Any] = {"sampling": "uniform", "replacement": False, "minimise": "multiplies", "rescore": False}


@dataclass(frozen=True)
class Ours:
    """One way of calling the library.

    Attributes
    ----------
    label
        What distinguishes it from the others, for the tables.
    fit
        Whether an index is fitted first.
    goals
        What it should reach, by the k of a request; see `goals_for`.
    options
        What differs from the defaults.
    added
        Whether half of the atoms are added after the fit.
    """

    label: str
    fit: bool
    goals: Mapping[str, Goals] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    added: bool = False

    @property
    def delta(self) -> float | None:
        """The failure probability that its answers are held to; None where a budget allows any."""
        return None if "budget" in self.options else float(self.options.get("delta", 1e-3))

    @property
    def shortfall(self) -> float:
        """What an answer may fall short of the best."""
        return float(self.options.get("epsilon", 0.0))

    def goals_for(self, asked: str) -> Goals:
        """Return the goals of a request, or those of all (under the empty name)."""
        return self.goals.get(asked, self.goals.get("", Goals()))

    def build(self, atoms: Any, threads: int, problem: Problem) -> Searcher:
        """Fit an index, or leave the atoms as they are."""
        setting = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        options: dict[str, Any] = {**self.options, "objective": problem.objective, "n_jobs": threads}
        if not self.fit:
            return Searcher(
                lambda request, k: bm.search(atoms, request, k, **options).indices, extra_bytes=0, setting=setting
            )
        index = bm.BanditMIPS(**options)
        if self.added:
            half = atoms.shape[0] // 2
            index.fit(atoms[:half]).add(atoms[half:])
        else:
            index.fit(atoms)
        return Searcher(
            lambda request, k: index.search(request, k).indices, extra_bytes=index.extra_bytes, setting=setting
        )


def build_authors(atoms: Any, threads: int, sigma: float) -> Searcher:
    """Race as the paper does: uniform coordinates, Hoeffding's radius with the sigma that its appendix gives."""
    options: dict[str, Any] = {**_PAPER, "bound": "hoeffding", "sigma": sigma, "n_jobs": threads}
    return Searcher(
        lambda request, k: bm.search(atoms, request, k, **options).indices,
        extra_bytes=0,
        setting=f"Hoeffding, uniform, sigma={sigma:g}",
    )
