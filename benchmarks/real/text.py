"""TF-IDF of technical documents: what else is written about this.

Source: Debian's linux-doc-6.1 (documentation of the Linux kernel, GPL-2): 8,100 files of prose and of device bindings;
weights by scikit-learn (BSD-3-Clause).

Query: a document that is not among the atoms, and every other time only 5 of its words. CSR, about
8,000 x 60,000, 20 MB.
"""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.real.sources import debian_package, require

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 40, "d": 500, "n_queries": 6}
_PACKAGE = "linux-doc-6.1"
_N_WORDS = 5


def build(
    rng: np.random.Generator, n: int = 8_000, d: int = 60_000, n_queries: int = 50
) -> tuple[scipy.sparse.csr_array[Any], scipy.sparse.csr_array[Any]]:
    """Return weights of the d commonest words, in rows of length 1."""
    extraction, preprocessing = require("sklearn.feature_extraction.text"), require("sklearn.preprocessing")
    folder = next(debian_package(_PACKAGE).rglob("Documentation"))
    files = sorted(file for suffix in ("rst", "yaml", "txt") for file in folder.rglob(f"*.{suffix}.gz"))
    chosen = rng.permutation(len(files))[: n + n_queries]
    texts = [gzip.decompress(files[i].read_bytes()).decode(errors="replace") for i in chosen]
    vectoriser = extraction.TfidfVectorizer(max_features=d, sublinear_tf=True, dtype=np.float32, min_df=2)
    atoms = scipy.sparse.csr_array(vectoriser.fit_transform(texts[:n]))
    queries = scipy.sparse.csr_array(vectoriser.transform(texts[n:]))
    for row in range(0, queries.shape[0], 2):
        stored = queries.data[queries.indptr[row] : queries.indptr[row + 1]]
        stored[rng.permutation(len(stored))[_N_WORDS:]] = 0.0
    queries.eliminate_zeros()
    return atoms, scipy.sparse.csr_array(preprocessing.normalize(queries))
