"""Calls for a type checker: those that end in a remark are wrong, and all others are right. Never run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm

atoms: NDArray[np.float32] = np.ones((10, 20), dtype=np.float32)
query = atoms[0]

bm.search(atoms, query)
bm.search(atoms, query, 3, delta=0.1, objective="cosine", bound="auto", minimise="multiplies", seed=None, n_jobs=None)
bm.search(atoms.tolist(), query.tolist(), k=3, bound="hoeffding", sigma="estimate", value_range=(0, 1))
bm.search(atoms, query, detla=0.1)  # wrong
bm.search(atoms, query, n_neighbors=3)  # wrong
bm.search(atoms, query, layout="full")  # wrong
bm.search(atoms, query, objective="cosin")  # wrong
bm.search(atoms, query, sampling="sort")  # wrong
bm.search(atoms, query, bound="Hoeffding")  # wrong
bm.search(atoms, query, minimise="memory")  # wrong
bm.search(atoms, query, sigma="guess")  # wrong
bm.search(atoms, query, delta="0.1")  # wrong
bm.search(atoms, query, k="3")  # wrong
bm.search(atoms)  # wrong

index = bm.BanditMIPS(delta=0.1, layout="coordinates", bucket_size=30, max_extra_memory=10**6).fit(atoms)
bm.BanditMIPS(layout="cache")  # wrong
bm.BanditMIPS(k=3)  # wrong
bm.BanditMIPS(validat=False)  # wrong
bm.BanditMIPS(0.1)  # wrong

result = index.search(query, 2, delta=0.2, trace=True, budget=None, mask=np.zeros(10, dtype=bool))
indices: NDArray[np.int64] = result.indices
index.search(query, detla=0.2)  # wrong
index.search(query, delta="0.2")  # wrong
index.search(query, seed=1)  # wrong
index.search(query, layout="full")  # wrong
print(result.indexes)  # wrong

changed: dict[str, Any] = {"delta": 0.1}
bm.search(atoms, query, **changed)
bm.load("atoms.bm").verify()
bm.load(3)  # wrong

pursuit = bm.matching_pursuit(atoms, query, n_nonzero=3, method="omp", sampling="uniform", group_size=2)
pursuit.coefficients.sum()
bm.matching_pursuit(atoms, query, method="lars")  # wrong
bm.matching_pursuit(atoms, query, n_nonzero_coefs=3)  # wrong
bm.MatchingPursuit(n_nonzero_coefs=3, seed=None).fit(atoms).transform(query)
bm.MatchingPursuit(n_nonzero=3)  # wrong
bm.open_atoms("atoms.zarr", missing_chunks="ignore")  # wrong

bm.datasets.load("normal_custom", n=10, d=10).atoms.sum()
bm.baselines.NaiveMIPS().fit(atoms).search(query)
bm.datasets.lod("normal_custom")  # wrong
bm.baselines.NaivMIPS()  # wrong
print(bm.datasts)  # wrong
