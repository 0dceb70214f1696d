"""Factors between two counts or times: what they are called, and when they bear a claim out."""

from __future__ import annotations

from banditmips.experiments.report.judging import Agreement
from banditmips.experiments.report.points import Estimate, compact

__all__ = ["MARGIN", "agreement", "between", "fewer"]

MARGIN = 1.1
"""Factor below which one count is not called smaller than another, whatever its interval."""


def agreement(factor: Estimate, least: float = MARGIN) -> Agreement:
    """Judge a factor that is claimed to be at least ``least``, and that its interval over the trials has to bear out.

    It agrees if its interval is above ``least`` as well (above 1, where no more is claimed than that one is smaller),
    and barely if it is above 1.
    """
    if factor.mean >= least and factor.low >= (1.0 if least == MARGIN else least):
        return Agreement.YES
    return Agreement.BARELY if factor.mean > 1.0 else Agreement.NO


def fewer(factor: Estimate) -> str:
    """Say how many times fewer multiplies there are, or how many times more, with the interval."""
    if factor.mean >= 1:
        return f"{compact(factor.mean)}×{between(factor.low, factor.high)} fewer"
    return f"{compact(1 / factor.mean)}×{between(1 / factor.high, 1 / factor.low)} more"


def between(low: float, high: float) -> str:
    """Return an interval in brackets, and nothing for one whose ends are written alike."""
    ends = compact(low), compact(high)
    return f" ({ends[0]} to {ends[1]})" if ends[0] != ends[1] else ""
