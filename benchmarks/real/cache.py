"""The sets by name, built once and kept on disk."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.real.sources import cache_folder

__all__ = ["SETS", "load"]

SETS = ("genotypes", "gradients", "recordings", "images", "text", "spectrograms", "kmers")
"""Modules of this package, each with `build` and `TINY`."""
_SEED = 0


def load(name: str, *, tiny: bool = False) -> tuple[Any, Any]:
    """Return atoms and queries of a set; both sparse for text.

    Parameters
    ----------
    name
        One of `SETS`.
    tiny
        The small version, which tests use.

    Raises
    ------
    SourceMissingError
        If the package that it is built from cannot be had.
    """
    if name not in SETS:
        raise ValueError(f"name: expected one of {', '.join(SETS)}, got {name!r}")
    stem = f"{name}-tiny" if tiny else name
    parts = tuple(cache_folder() / f"{stem}-{part}" for part in ("atoms", "queries"))
    if not all(_stored(part) for part in parts):
        module = importlib.import_module(f"benchmarks.real.{name}")
        built = module.build(np.random.default_rng(_SEED), **(module.TINY if tiny else {}))
        for part, matrix in zip(parts, built, strict=True):
            _store(part, matrix)
    atoms, queries = (_read(part) for part in parts)
    return atoms, queries


def _stored(part: Path) -> Path | None:
    return next((file for suffix in (".npy", ".npz") if (file := part.with_name(part.name + suffix)).exists()), None)


def _store(part: Path, matrix: Any) -> None:
    sparse = scipy.sparse.issparse(matrix)
    # Written beside its place and moved there, so that a build that was stopped leaves nothing half done.
    unfinished = part.with_name(f"unfinished-{part.name}" + (".npz" if sparse else ".npy"))
    if sparse:
        scipy.sparse.save_npz(unfinished, matrix, compressed=False)
    else:
        np.save(unfinished, matrix)
    unfinished.rename(part.with_name(part.name + unfinished.suffix))


def _read(part: Path) -> Any:
    file = _stored(part)
    assert file is not None
    return scipy.sparse.load_npz(file) if file.suffix == ".npz" else np.load(file)
