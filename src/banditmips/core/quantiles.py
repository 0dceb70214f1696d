"""Quantiles of Student's and of the normal distribution.

SciPy is imported when one of Student's is asked for: that takes longer than opening an index, and many searches ask for
none.
"""

from __future__ import annotations

from math import inf
from statistics import NormalDist

__all__ = ["normal_quantile", "student_quantile"]


def student_quantile(degrees: float, tail: float) -> float:
    """Number that Student's t with so many degrees of freedom is below with probability `tail`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, tail))


def normal_quantile(tail: float) -> float:
    """Number that a standard normal variable is below with probability `tail`."""
    if not 0.0 < tail < 1.0:
        return inf if tail >= 1.0 else -inf
    return NormalDist().inv_cdf(tail)
