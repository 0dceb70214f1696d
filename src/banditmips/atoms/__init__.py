"""Where atoms live: in dense arrays or sparse matrices, or in functions, all behind one small protocol, `AtomStore`.

A store only reads. What the race needs of it is a few values (`gather`), exact scores of a few rows (`scores`), and,
for `fit`, one pass over everything (`blocks`).
"""

from banditmips.atoms.dense import DenseStore
from banditmips.atoms.functions import FunctionStore, chirps, gabor_atoms, sinusoids
from banditmips.atoms.joined import JoinedStore
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.reading import StoreReader
from banditmips.atoms.sparse import SparseStore

__all__ = [
    "AtomStore",
    "DenseStore",
    "FunctionStore",
    "JoinedStore",
    "SparseStore",
    "StoreReader",
    "chirps",
    "gabor_atoms",
    "sinusoids",
]
