"""The options of a search as one checked value, and the checks that options are made of."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from banditmips._options import BoundName, Ends, Minimise, Objective, Sampling, Sigma

__all__ = ["Options", "check_choice", "check_flag", "check_integer", "check_real"]

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
SAMPLINGS: tuple[Sampling, ...] = get_args(Sampling)
BOUNDS: tuple[BoundName, ...] = get_args(BoundName)
ENDS: tuple[Ends, ...] = get_args(Ends)
MINIMISE: tuple[Minimise, ...] = get_args(Minimise)

_OTHER_WORDS = {
    "objective": {
        **dict.fromkeys(("ip", "dot", "dot_product", "inner", "mips"), "inner_product"),
        **dict.fromkeys(("l2", "euclidean", "sqeuclidean", "squared_euclidean"), "neg_sqeuclidean"),
        **dict.fromkeys(("l1", "manhattan", "cityblock"), "neg_l1"),
        **dict.fromkeys(("angular", "cos"), "cosine"),
    },
    "layout": {"cache": "coordinates"},
}
"""What other libraries, or earlier versions of this one, call a choice."""


@dataclass(frozen=True)
class Options:
    """All options of a search, checked. The docstring of `banditmips.search` says what each means."""

    delta: float = 1e-3
    epsilon: float = 0.0
    objective: Objective = "inner_product"
    sampling: Sampling = "auto"
    beta: float = 0.5
    bound: BoundName = "auto"
    sigma: Sigma = None
    value_range: tuple[float, float] | None = None
    replacement: bool = False
    absolute: bool = False
    ends: Ends = "largest"
    minimise: Minimise = "time"
    budget: int | None = None
    rescore: bool = True
    seed: int = 0
    n_jobs: int = 1
    trace: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        """Check each option, then those that must go together."""
        check_real("delta", self.delta, "in [0, 1)", is_fine=lambda x: 0.0 <= x < 1.0)
        check_real("epsilon", self.epsilon, "at least 0 and finite", is_fine=lambda x: 0.0 <= x < np.inf)
        check_real("beta", self.beta, "at least 0 and finite", is_fine=lambda x: 0.0 <= x < np.inf)
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_choice("bound", self.bound, BOUNDS)
        check_choice("ends", self.ends, ENDS)
        check_choice("minimise", self.minimise, MINIMISE)
        for name in ("replacement", "absolute", "rescore", "trace", "progress"):
            check_flag(name, getattr(self, name))
        if self.budget is not None:
            check_integer("budget", self.budget, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        if self.seed >= 1 << 63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}")
        check_integer("n_jobs", self.n_jobs, minimum=-1)
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be a number of threads, or -1 for one for each core, got 0")
        self._check_sigma_and_range()
        self._check_combinations()
        self._make_plain()

    @cached_property
    def says_how_to_sample(self) -> bool:
        """Whether coordinates are to be sampled in a way of the user's."""
        return self.bound not in ("auto", "codes") or self.sampling != "auto" or self.replacement

    def _make_plain(self) -> None:
        """Turn NumPy's numbers into Python's, so that options can be compared and saved."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, field.name, value.item())
        if self.value_range is not None:
            low, high = self.value_range
            object.__setattr__(self, "value_range", (float(low), float(high)))

    def _check_sigma_and_range(self) -> None:
        if isinstance(self.sigma, str):
            if self.sigma != "estimate":
                raise ValueError(f"sigma must be a positive number, 'estimate' or None, got {self.sigma!r}")
        elif self.sigma is not None:
            check_real("sigma", self.sigma, "positive and finite", is_fine=lambda x: 0.0 < x < np.inf)
        if self.value_range is not None:
            try:
                low, high = (_as_float(x) for x in self.value_range)
            except (TypeError, ValueError):
                raise TypeError(f"value_range must be a pair (low, high), got {self.value_range!r}") from None
            if not -np.inf < low <= high < np.inf:
                raise ValueError(f"value_range must be finite with low <= high, got {self.value_range!r}")
        if self.sigma is not None and not self.bound.startswith("hoeffding"):
            raise ValueError(f"sigma is used by bound='hoeffding' and 'hoeffding_serfling' only, not by {self.bound!r}")
        if self.value_range is not None and self.bound in ("auto", "codes", "paired"):
            raise ValueError(f"value_range is used by the hoeffding and bernstein bounds only, not by {self.bound!r}")

    def _check_combinations(self) -> None:
        weighted = self.sampling in ("weighted", "optimal")
        if weighted and not self.replacement and self.bound not in ("auto", "paired"):
            raise ValueError(
                f"bound={self.bound!r} holds for weighted sampling with replacement only: "
                f"set replacement=True, sampling='uniform' or bound='paired' (got sampling={self.sampling!r})"
            )
        if self.replacement and self.bound == "hoeffding_serfling":
            raise ValueError("bound='hoeffding_serfling' is for sampling without replacement: set replacement=False")
        if self.replacement and self.sampling == "sorted":
            raise ValueError("sampling='sorted' takes each coordinate once: set replacement=False")
        if self.objective.startswith("neg_") and (weighted or self.sampling == "sorted"):
            raise ValueError(
                f"sampling={self.sampling!r} follows the query's entries, which says nothing about "
                f"objective={self.objective!r}: use sampling='uniform' or 'auto'"
            )
        if self.objective.startswith("neg_") and self.absolute:
            raise ValueError(f"absolute=True makes no sense with objective={self.objective!r}, which is never positive")
        if self.ends != "largest" and self.absolute:
            raise ValueError(f"absolute=True ranks both signs as one, so there is no ends={self.ends!r}: choose one")
        if self.ends != "largest" and self.objective.startswith("neg_"):
            raise ValueError(
                f"ends={self.ends!r} is for inner products, cosines and correlations; nothing searches for the most "
                f"different atoms (got objective={self.objective!r})"
            )


def check_flag(name: str, value: object) -> bool:
    """Check a switch."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        said = value.lower() if isinstance(value, str) else ""
        other = _OTHER_WORDS.get(name, {}).get(said)
        near = [other] if other in choices else difflib.get_close_matches(said, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}{hint}")


def check_integer(name: str, value: object, *, minimum: int) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
    return int(value)


def check_real(name: str, value: object, expected: str, *, is_fine: Any) -> None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number {expected}, got {value!r}")
    if not is_fine(_as_float(value)):
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def _as_float(value: Any) -> float:
    """Return a number as a float; beyond the largest it is infinite, and no error without a name."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
