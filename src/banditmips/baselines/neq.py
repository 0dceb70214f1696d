"""NEQ-MIPS: norm-explicit quantisation (Dai et al., AAAI 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import Baseline, Candidates, check_count
from banditmips.baselines._quantise import (
    DirectionQuantiser,
    ProductQuantiser,
    ResidualQuantiser,
    quantise_norms,
)

__all__ = ["NEQMIPS"]

_QUANTISERS: dict[str, type[DirectionQuantiser]] = {"rq": ResidualQuantiser, "pq": ProductQuantiser}


class NEQMIPS(Baseline):
    """Estimate inner products from quantised norms and quantised directions, then rank the best exactly.

    An error in an atom's norm disturbs inner products far more than one in its direction, so the two are
    quantised apart. Directions get vector codebooks; the norms get scalar codebooks of their own, which
    quantise |x| divided by the length of the quantised direction, so that they make up for its shrinkage as
    well.

    A query costs the products of its look-up tables (d for each codeword with ``method="rq"``, d for each set
    of codewords, one from each codebook, with ``"pq"``), one product of norm and direction for each atom, and
    d for each atom ranked exactly. Adding up table entries costs no product.

    Parameters
    ----------
    codebooks : int, default 8
        Codebooks for the directions; at most d of them with ``method="pq"``.
    codewords : int, default 16
        Codewords in each codebook, those of the norms included; at most n.
    method : {"rq", "pq"}, default "rq"
        Quantise directions by residuals (each codebook what the ones before it left over) or by products
        (each codebook its own share of the coordinates).
    norm_codebooks : int, default 1
        Codebooks for the norms, each quantising what the ones before it left over.
    rerank : int, default 10
        How many atoms, the best by estimate, are ranked exactly (k if that is more); the parameter that
        trades accuracy for work. With n the search is exact.
    seed : int, default 0
        Seed of the k-means that learns the codebooks.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(200, 50))
    >>> result = NEQMIPS(codebooks=4, codewords=8, rerank=5).fit(atoms).search(atoms[3])
    >>> result.indices, result.n_multiplies == 4 * 8 * 50 + 200 + 5 * 50
    (array([3]), True)
    """

    key: ClassVar[str] = "neq"
    title: ClassVar[str] = "NEQ-MIPS"
    effort: ClassVar[str] = "rerank"

    def __init__(
        self,
        *,
        codebooks: int = 8,
        codewords: int = 16,
        method: str = "rq",
        norm_codebooks: int = 1,
        rerank: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.codebooks = check_count("codebooks", codebooks, minimum=1)
        self.codewords = check_count("codewords", codewords, minimum=1)
        if method not in _QUANTISERS:
            raise ValueError(f"method must be one of {', '.join(_QUANTISERS)}, but came as {method!r}")
        self.method = method
        self.norm_codebooks = check_count("norm_codebooks", norm_codebooks, minimum=1)
        self.rerank = check_count("rerank", rerank, minimum=1)

    def _build(self, atoms: NDArray[Any]) -> None:
        directions = np.array(atoms, dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        directions /= np.where(norms > 0.0, norms, 1.0)[:, np.newaxis]
        self._quantiser = _QUANTISERS[self.method](
            directions.astype(np.float32), self.codebooks, self.codewords, self.seed
        )
        lengths = self._quantiser.lengths()
        relative_norms = np.divide(norms, lengths, out=np.zeros_like(norms), where=lengths > 0.0)
        self._norms = quantise_norms(relative_norms, self.norm_codebooks, self.codewords, self.seed)

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        tables = self._quantiser.tables(query)
        estimates = self._norms * self._quantiser.look_up(tables)
        best = np.argsort(-estimates, kind="stable")[: max(self.rerank, k)]
        return Candidates(best, n_multiplies=self._quantiser.table_multiplies + estimates.size)
