"""Search once, with and without an index, and compare with the full product: a program for an installed wheel."""

import sys
from pathlib import Path

import numpy as np

import banditmips as bm


def main() -> None:
    """Find what the full product finds."""
    assert Path(bm.__file__).is_relative_to(sys.prefix), f"{bm.__file__} is not what was installed in {sys.prefix}"
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        atoms = rng.normal(rng.normal(size=(300, 1)), 1.0, size=(300, 5_000)).astype(dtype)
        queries = rng.normal(1.0, 1.0, size=(4, 5_000)).astype(dtype)
        best = np.argsort(-(queries @ atoms.T), axis=1)[:, :3]
        for result in (bm.search(atoms, queries, 3), bm.BanditMIPS().fit(atoms).search(queries, 3)):
            np.testing.assert_array_equal(result.indices, best)
    print("found")


if __name__ == "__main__":
    main()
