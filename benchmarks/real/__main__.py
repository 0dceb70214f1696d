"""Build real data: ``python -m benchmarks.real [NAME ...]``; all sets by default.

Prints for each set its shape, its size, the seconds that building or reading it took, and how far apart its answers
are: medians over the queries of what the best atom is ahead of the second and the tenth, over both norms.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from benchmarks.real import SETS, SourceMissingError, load


def separation(atoms: Any, queries: Any) -> tuple[float, float]:
    """Return the median lead over the second and over the tenth atom, over the norms of query and best atom."""
    sparse = scipy.sparse.issparse(atoms)
    scores = (queries @ atoms.T).toarray() if sparse else queries @ atoms.T
    norm = scipy.sparse.linalg.norm if sparse else np.linalg.norm
    best = np.argsort(-scores, axis=1)[:, :10]
    leading = np.take_along_axis(scores, best, axis=1)
    norms = norm(atoms, axis=1)[best[:, 0]] * norm(queries, axis=1)
    second, tenth = (float(np.median((leading[:, 0] - leading[:, rank]) / norms)) for rank in (1, 9))
    return second, tenth


def main(names: list[str]) -> int:
    """Build the sets and describe them; returns 1 if one cannot be had."""
    missing = 0
    for name in names or SETS:
        start = time.perf_counter()
        try:
            atoms, queries = load(name)
        except SourceMissingError as error:
            print(f"{name}: {error}")
            missing = 1
            continue
        seconds = time.perf_counter() - start
        second, tenth = separation(atoms, queries)
        n, d = atoms.shape
        print(f"{name}: {n:,} x {d:,}, {queries.shape[0]} queries, {seconds:.1f} s, ahead by {second:.4f}, {tenth:.4f}")
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
