"""The eight methods that the paper compares with, and the full product, behind one contract.

>>> import numpy as np
>>> from banditmips.baselines import REGISTRY
>>> atoms = np.random.default_rng(0).normal(size=(50, 20))
>>> result = REGISTRY["greedy"](budget=50).fit(atoms).search(atoms[7])
>>> result.indices, result.exact
(array([7]), array([ True]))

Change the word in brackets to try another method: ``list(REGISTRY)`` names them. All take their parameters
by name, all have ``fit(atoms)`` and ``search(queries, k)``, and all count the multiplies of a query in the
same way. A module is imported when its method is first asked for, since some need the extra ``baselines``.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from banditmips.baselines._base import Baseline

if TYPE_CHECKING:
    from banditmips.baselines.bounded_me import BoundedME
    from banditmips.baselines.greedy import GreedyMIPS
    from banditmips.baselines.h2_alsh import H2ALSH
    from banditmips.baselines.hnsw import HNSWMIPS
    from banditmips.baselines.lsh import LSHMIPS
    from banditmips.baselines.naive import NaiveMIPS
    from banditmips.baselines.napg import NAPGMIPS
    from banditmips.baselines.neq import NEQMIPS
    from banditmips.baselines.pca import PCAMIPS

__all__ = [
    "H2ALSH",
    "HNSWMIPS",
    "LSHMIPS",
    "NAPGMIPS",
    "NEQMIPS",
    "PCAMIPS",
    "REGISTRY",
    "Baseline",
    "BoundedME",
    "GreedyMIPS",
    "NaiveMIPS",
]

_CLASS_OF_MODULE = {
    "naive": "NaiveMIPS",
    "bounded_me": "BoundedME",
    "greedy": "GreedyMIPS",
    "lsh": "LSHMIPS",
    "h2_alsh": "H2ALSH",
    "neq": "NEQMIPS",
    "pca": "PCAMIPS",
    "hnsw": "HNSWMIPS",
    "napg": "NAPGMIPS",
}


class _Registry(Mapping[str, type[Baseline]]):
    """The methods by key; a method's module is imported when it is first looked up."""

    def __getitem__(self, key: str) -> type[Baseline]:
        if key not in _CLASS_OF_MODULE:
            near = difflib.get_close_matches(str(key), _CLASS_OF_MODULE, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(_CLASS_OF_MODULE)}"
            raise KeyError(f"there is no baseline {key!r}: {hint}")
        module = importlib.import_module(f"{__name__}.{key}")
        method: type[Baseline] = getattr(module, _CLASS_OF_MODULE[key])
        return method

    def __contains__(self, key: object) -> bool:
        return key in _CLASS_OF_MODULE

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASS_OF_MODULE)

    def __len__(self) -> int:
        return len(_CLASS_OF_MODULE)

    def __repr__(self) -> str:
        return f"REGISTRY({', '.join(self)})"


REGISTRY: Mapping[str, type[Baseline]] = _Registry()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[Baseline]:
        for key, class_name in _CLASS_OF_MODULE.items():
            if name == class_name:
                return REGISTRY[key]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
