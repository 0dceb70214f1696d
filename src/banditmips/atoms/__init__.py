"""Where atoms live: in dense arrays or sparse matrices, in files, or in functions, all behind one small protocol.

A store only reads. What the race needs of it is a few values (`gather`), exact scores of a few rows (`scores`), and,
for `fit`, one pass over everything (`blocks`): that is `AtomStore`.

::

    AtomStore ─┬─ DenseStore, SparseStore, FunctionStore, JoinedStore    in memory
               ├─ MappedStore, MappedSparseStore                         the first two, as maps of files
               └─ PartStore (read in parts; may have lines) ─┬─ RawStore     .npy, contiguous HDF5
                                                             └─ GridStore    Zarr, chunked HDF5, Parquet, Arrow
                                                                  │ ChunkReader: cache, look-ahead, retries
"""

from banditmips.atoms.dense import DenseStore
from banditmips.atoms.functions import FunctionStore, chirps, gabor_atoms, sinusoids
from banditmips.atoms.joined import JoinedStore
from banditmips.atoms.mapped import MappedSparseStore, MappedStore, check_maps, guard_of, map_of, maps_in
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.parts import PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.sparse import SparseStore

__all__ = [
    "AtomStore",
    "DenseStore",
    "FunctionStore",
    "JoinedStore",
    "MappedSparseStore",
    "MappedStore",
    "PartStore",
    "SparseStore",
    "check_maps",
    "chirps",
    "count_bytes",
    "gabor_atoms",
    "guard_of",
    "map_of",
    "maps_in",
    "sinusoids",
]
