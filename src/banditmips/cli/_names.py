"""Names that help and completion show.

Those that would take NumPy to import are written down here, and a test compares them with the library's.
"""

from __future__ import annotations

from typing import get_args

from banditmips._options import BoundName, Ends, Layout, Minimise, Objective, PursuitMethod, Sampling

__all__ = [
    "BOUNDS",
    "DATASETS",
    "ENDS",
    "FORMATS",
    "LAYOUTS",
    "METHODS",
    "MINIMISE",
    "OBJECTIVES",
    "PUBLISHED",
    "PURSUITS",
    "SAMPLINGS",
]

OBJECTIVES: tuple[str, ...] = get_args(Objective)
SAMPLINGS: tuple[str, ...] = get_args(Sampling)
BOUNDS: tuple[str, ...] = get_args(BoundName)
ENDS: tuple[str, ...] = get_args(Ends)
LAYOUTS: tuple[str, ...] = get_args(Layout)
MINIMISE: tuple[str, ...] = get_args(Minimise)
PURSUITS: tuple[str, ...] = get_args(PursuitMethod)
FORMATS = ("table", "csv", "parquet", "npz", "json", "jsonl", "tsv")
METHODS = (
    "banditmips",
    "banditmips_search",
    "banditmips_alpha",
    "naive",
    "bounded_me",
    "greedy",
    "lsh",
    "h2_alsh",
    "neq",
    "pca",
    "hnsw",
    "napg",
)
PUBLISHED = ("movielens_100k", "movielens_1m", "netflix", "sift_1m", "crypto_pairs")
"""Datasets that have to be fetched before they are loaded."""
DATASETS = (
    *PUBLISHED,
    "correlated_normal_custom",
    "heavy_tailed",
    "needle",
    "normal_custom",
    "pixels",
    "ratings",
    "simple_song",
    "sparse",
    "symmetric_normal",
)
