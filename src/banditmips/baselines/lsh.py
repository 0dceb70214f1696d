"""Locality-sensitive hashing for inner products (Shrivastava and Li 2014; Neyshabur and Srebro 2015).

Hashing finds near neighbours, and the nearest neighbour is not the atom with the largest inner product unless
all norms are equal. Both variants append coordinates that make it so, then hash every atom into several
tables; the atoms in the query's buckets are the candidates, and their exact inner products decide.

``l2_alsh``
    Atoms, scaled to a largest norm of U < 1, get ``|x|^2, |x|^4, ..., |x|^(2^m)`` appended, the unit query m
    times 1/2; the squared Euclidean length of the difference is then ``1 + m/4 - 2 x.q + |x|^(2^(m+1))``, and
    its last term vanishes as m grows. The hash is ``floor((a.x + b) / r)``, a Gaussian, b uniform in [0, r).
``simple``
    Atoms, scaled to a largest norm of 1, get ``sqrt(1 - |x|^2)`` appended and the query a 0, after which all
    atoms have norm 1 and ``x.q`` is unchanged. The hash is the sign of ``a.x``, for atoms and query alike.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import Baseline, Candidates, check_count, check_real, norms_of, project

__all__ = ["LSHMIPS"]


class LSHMIPS(Baseline):
    """Hash tables over atoms transformed so that near means large inner product, then exact ranking.

    Parameters
    ----------
    n_functions : int, default 3
        Hash functions per table; an atom is met in a table if all of them agree. More give smaller buckets.
    n_tables : int, default 10
        Hash tables; an atom is a candidate if any table meets it.
    variant : {"l2_alsh", "simple"}, default "l2_alsh"
        The asymmetric transformation with quantised projections, or the symmetric one with signs.
    scale : float, default 0.83
        U of ``l2_alsh``, the largest norm after scaling, between 0 and 1.
    n_powers : int, default 3
        m of ``l2_alsh``, the number of appended powers of the norm.
    width : float, default 2.5
        r of ``l2_alsh``, the width of a bucket.
    seed : int, default 0
        Seed of the hash functions.

    Notes
    -----
    U = 0.83, m = 3 and r = 2.5 are the values that Shrivastava and Li recommend.

    A query costs d multiplies for each of the ``n_tables * n_functions`` projections, d for each candidate
    and, with ``l2_alsh``, d for its norm; what the appended coordinates add is settled by `fit`.

    Hashing only makes it likely that the best atom is met: the accuracy tends to 1 as `n_tables` grows, but
    is certain at no number of tables. A query whose buckets are all empty gets no atom.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(200, 30))
    >>> result = LSHMIPS(variant="simple", n_functions=4, n_tables=12).fit(atoms).search(atoms[7])
    >>> result.indices, result.n_survivors < 200
    (array([7]), True)
    """

    key: ClassVar[str] = "lsh"
    title: ClassVar[str] = "LSH-MIPS"
    effort: ClassVar[str] = "n_tables"

    def __init__(
        self,
        *,
        n_functions: int = 3,
        n_tables: int = 10,
        variant: str = "l2_alsh",
        scale: float = 0.83,
        n_powers: int = 3,
        width: float = 2.5,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        if variant not in ("l2_alsh", "simple"):
            raise ValueError(f"variant must be 'l2_alsh' or 'simple', but came as {variant!r}")
        self.n_functions = check_count("n_functions", n_functions, minimum=1)
        self.n_tables = check_count("n_tables", n_tables, minimum=1)
        self.variant = variant
        self.scale = check_real("scale", scale, above=0, below=1)
        self.n_powers = check_count("n_powers", n_powers, minimum=1)
        self.width = check_real("width", width, above=0)

    def _build(self, atoms: NDArray[Any]) -> None:
        n, d = atoms.shape
        n_appended = self.n_powers if self.variant == "l2_alsh" else 1
        n_hashes = self.n_tables * self.n_functions
        rng = np.random.default_rng(self.seed)
        directions = rng.normal(size=(n_hashes, d + n_appended))
        self._directions, tails = np.ascontiguousarray(directions[:, :d]), directions[:, d:]
        self._offsets = rng.uniform(0, self.width, size=n_hashes)
        self._query_tail = 0.5 * tails.sum(axis=1)

        norms = norms_of(atoms)
        factor = (self.scale if self.variant == "l2_alsh" else 1.0) / (norms.max() or 1.0)
        projections = factor * project(atoms, self._directions) + tails @ self._appended(factor * norms).T
        codes = self._hash(projections, self._offsets[:, None])
        per_table = codes.reshape(self.n_tables, self.n_functions, n)
        self._tables = [_buckets(table_codes.T) for table_codes in per_table]

    def _appended(self, norms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coordinates that the transformation appends to atoms of these norms."""
        if self.variant == "simple":
            return np.sqrt(np.maximum(0.0, 1.0 - norms**2))[:, None]
        return norms[:, None] ** (2.0 ** np.arange(1, self.n_powers + 1))

    def _hash(self, projections: NDArray[np.float64], offsets: Any) -> NDArray[np.int64]:
        if self.variant == "simple":
            return (projections >= 0).astype(np.int64)
        buckets: NDArray[np.float64] = np.floor((projections + offsets) / self.width)
        return buckets.astype(np.int64)

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        d = query.size
        projections = self._directions @ query
        n_multiplies = self._directions.size
        if self.variant == "l2_alsh":
            projections = projections / (np.sqrt(query @ query) or 1.0) + self._query_tail
            n_multiplies += d
        codes = self._hash(projections, self._offsets).reshape(self.n_tables, self.n_functions)
        nothing = np.empty(0, dtype=np.int64)
        met = [table.get(code.tobytes(), nothing) for table, code in zip(self._tables, codes, strict=True)]
        return Candidates(np.unique(np.concatenate(met)), n_multiplies)


def _buckets(codes: NDArray[np.int64]) -> dict[bytes, NDArray[np.int64]]:
    """Group the atoms by their row of hash values."""
    keys, bucket_of = np.unique(codes, axis=0, return_inverse=True)
    by_bucket = np.argsort(bucket_of, kind="stable")
    ends = np.cumsum(np.bincount(bucket_of))
    return {key.tobytes(): bucket for key, bucket in zip(keys, np.split(by_bucket, ends[:-1]), strict=True)}
