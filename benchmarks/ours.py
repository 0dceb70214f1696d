"""Our own ways of answering, and the authors' method with the settings of their paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

import banditmips as bm
from benchmarks.goals import Goal
from benchmarks.peers import Searcher

__all__ = ["Ours", "build_authors"]


@dataclass(frozen=True)
class Ours:
    """One way of calling the library.

    Attributes
    ----------
    label
        What distinguishes it from the others, for the tables.
    fit
        Whether an index is fitted first.
    options
        What differs from the defaults.
    goals
        What it should reach; a figure without a limit is reported only.
    """

    label: str
    fit: bool
    goals: tuple[Goal, ...] = (Goal("speed_up"),)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def delta(self) -> float:
        """The failure probability that its answers are held to."""
        return float(self.options.get("delta", 1e-3))

    def build(self, atoms: NDArray[Any], threads: int) -> Searcher:
        """Fit an index, or leave the atoms as they are."""
        setting = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        if not self.fit:
            return Searcher(
                lambda request: bm.search(atoms, request, n_jobs=threads, **self.options).indices,
                extra_bytes=0,
                setting=setting,
            )
        index = bm.BanditMIPS(n_jobs=threads, **self.options).fit(atoms)
        return Searcher(lambda request: index.search(request).indices, extra_bytes=index.extra_bytes, setting=setting)


def build_authors(atoms: NDArray[Any], threads: int, sigma: float) -> Searcher:
    """Race as the paper does: uniform coordinates, Hoeffding's radius with the sigma that its appendix gives."""
    options: dict[str, Any] = {
        "bound": "hoeffding",
        "sampling": "uniform",
        "sigma": sigma,
        "replacement": False,
        "rescore": False,
    }
    return Searcher(
        lambda request: bm.search(atoms, request, n_jobs=threads, **options).indices,
        extra_bytes=0,
        setting=f"Hoeffding, uniform, sigma={sigma:g}",
    )
