"""Pixels as atoms, images as coordinates: blob-like strokes that look like transposed MNIST to a search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import Role, check_counts, check_dtype, stream

__all__ = ["pixels"]

_IMAGES_PER_BLOCK = 2_000
_POINTS_PER_STROKE = 18
# The disc of the pixels nearest to the centre, as a share of the square image.
_DISC_SHARE = 0.853
# Chosen so that 28 x 28 images match what is known of MNIST (19 % of the entries above zero, mean 33.3,
# sd 78.6): measured 19.1 %, 32.3 and 78.9.
_BRUSH_SD, _INK, _PAPER, _REACH = 0.04, 330.0, 25.0, 0.4
_LEAST_QUERY_DENSITY = 0.01


def pixels(
    *, n: int = 667, d: int = 60_000, n_queries: int = 1, seed: int = 0, dtype: DTypeLike = "float32"
) -> Dataset:
    """Return brightnesses between 0 and 255: an atom is a pixel, its coordinates are that pixel in d images.

    Each image is one curved stroke. Most entries are zero; pixels near the rim are nearly always dark, those
    in the middle often bright; neighbours resemble each other. Queries are further pixels of the same images,
    among those that are not dark in at least 1 % of them. Stands in for MNIST's training images, transposed.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms (pixels), coordinates (images) and queries (further pixels).
    seed
        Seed of the strokes and of the choice of queries.
    dtype
        float32, float64 or uint8; the values are whole numbers in each of them.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("pixels", n=100, d=500, n_queries=3, dtype="uint8")
    >>> ds.atoms.shape, ds.queries.shape, ds.atoms.dtype
    ((100, 500), (3, 500), dtype('uint8'))
    >>> ds.surrogate
    True
    """
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed)
    dtype = check_dtype(dtype, ("float32", "float64", "uint8"))
    total = n + n_queries
    side = math.ceil(math.sqrt(total / _DISC_SHARE))
    kept = _disc(side, total)
    rows = np.empty((total, d), dtype=np.uint8)
    for block, start in enumerate(range(0, d, _IMAGES_PER_BLOCK)):
        images = _strokes(stream(seed, Role.COORDINATES, block), side)
        stop = min(start + _IMAGES_PER_BLOCK, d)
        rows[:, start:stop] = images[: stop - start, kept].T
    chosen = _choose_queries(rows, n_queries, seed)
    is_query = np.zeros(total, dtype=bool)
    is_query[chosen] = True
    return Dataset(
        name="pixels",
        atoms=rows[~is_query].astype(dtype, copy=False),
        queries=rows[chosen].astype(dtype, copy=False),
        description="Surrogate for transposed MNIST (synthetic strokes): atoms are pixels of the images.",
        params={"n": n, "d": d, "n_queries": n_queries, "seed": seed, "dtype": dtype.name},
        surrogate=True,
    )


def _disc(side: int, count: int) -> NDArray[np.intp]:
    """Return the flat indices, in reading order, of the pixels nearest to the centre."""
    offset = np.arange(side) - (side - 1) / 2
    radius = np.add.outer(offset**2, offset**2).ravel()
    return np.sort(np.argsort(radius, kind="stable")[:count])


def _strokes(generator: np.random.Generator, side: int) -> NDArray[np.uint8]:
    """Return a block of images of one stroke each, flattened.

    The brush is a horizontal bump times a vertical one, so an image is the product of two thin matrices.
    """
    count, points = _IMAGES_PER_BLOCK, _POINTS_PER_STROKE
    heading = generator.uniform(0, 2 * np.pi, (count, 1)) + np.linspace(-1, 1, points) * generator.normal(
        0, 2.2, (count, 1)
    )
    step = generator.uniform(0.045, 0.075, (count, 1))
    path = np.stack([np.cumsum(step * np.cos(heading), 1), np.cumsum(step * np.sin(heading), 1)])
    path += generator.normal(0, 0.05, (2, count, 1)) - path.mean(axis=2, keepdims=True)
    path = _REACH * np.tanh(path / _REACH)  # strokes bend back before the rim, which stays dark as in MNIST
    centres = (np.arange(side) + 0.5) / side - 0.5
    bumps = np.exp(-0.5 * ((centres - path[..., np.newaxis].astype(np.float32)) / _BRUSH_SD) ** 2, dtype=np.float32)
    ink = np.matmul(bumps[0].transpose(0, 2, 1), bumps[1]).reshape(count, side * side)
    bright: NDArray[np.uint8] = np.clip(_INK * ink - _PAPER, 0, 255).astype(np.uint8)
    return bright


def _choose_queries(rows: NDArray[Any], n_queries: int, seed: int) -> NDArray[np.intp]:
    """Draw pixels that are bright often enough to be a query; take the brightest where those are too few."""
    density = np.count_nonzero(rows, axis=1) / rows.shape[1]
    fit = np.flatnonzero(density >= _LEAST_QUERY_DENSITY)
    if len(fit) < n_queries:
        return np.argsort(-density, kind="stable")[:n_queries]
    return stream(seed, Role.CHOICE).choice(fit, n_queries, replace=False)
