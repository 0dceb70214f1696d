"""Names that help and completion show; a test compares them with the library's, which would take NumPy to import."""

from __future__ import annotations

__all__ = ["BOUNDS", "DATASETS", "FORMATS", "LAYOUTS", "METHODS", "OBJECTIVES", "PUBLISHED", "PURSUITS", "SAMPLINGS"]

OBJECTIVES = ("inner_product", "cosine", "neg_sqeuclidean", "neg_l1")
SAMPLINGS = ("auto", "weighted", "optimal", "uniform", "sorted")
BOUNDS = ("hoeffding", "hoeffding_serfling", "bernstein", "paired")
LAYOUTS = ("auto", "cache", "full", "none")
PURSUITS = ("mp", "omp")
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
