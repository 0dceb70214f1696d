"""What a search over several workers checks before they hear of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options, as_finite, changed_options

__all__ = ["check_finite", "cluster_options"]


def check_finite(rows: NDArray[Any], single: bool) -> None:
    """Refuse NaN and infinities in queries."""
    with np.errstate(over="ignore", invalid="ignore"):
        for number, row in enumerate(rows):
            if not np.isfinite(row.sum()):  # that is the case, or the sum is too large
                as_finite(row, "" if single else f"row {number}, ")


def cluster_options(base: Options, changes: Mapping[str, Any]) -> Options:
    """Check options, and refuse those that shards cannot serve."""
    options = changed_options(base, changes)
    for name, served, why in (
        ("trace", not options.trace, "no shard sees all rounds"),
        ("n_jobs", options.n_jobs == 1, "the cluster decides how many threads there are"),
    ):
        if not served:
            raise ValueError(f"{name}={getattr(options, name)!r} is not possible over several workers: {why}")
    return options
