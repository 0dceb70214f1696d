"""Quantiles of Student's and of the normal distribution, from SciPy.

SciPy is imported when the first is asked for: that takes longer than opening an index, and many searches ask for none.
"""

from __future__ import annotations

__all__ = ["normal_quantile", "student_quantile"]


def student_quantile(degrees: float, tail: float) -> float:
    """Number that Student's t with so many degrees of freedom is below with probability `tail`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, tail))


def normal_quantile(tail: float) -> float:
    """Number that a standard normal variable is below with probability `tail`."""
    from scipy.special import ndtri

    return float(ndtri(tail))
