"""Checks and converts what a user hands in; the options of a search check themselves (`banditmips._search_options`)."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from banditmips._options import Layout, check_names
from banditmips._search_options import Options, check_choice, check_flag, check_integer

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = [
    "Options",
    "as_finite",
    "as_mask",
    "as_queries",
    "as_store",
    "changed_options",
    "check_bucket_size",
    "check_flag",
    "check_k",
    "check_layout",
    "check_positive",
    "check_rows",
    "n_jobs_or_one",
    "reject_unknown",
    "seed_or_fresh",
]

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
_MOST_ATOMS = (1 << 31) - 1
_CPU = 1
"""What DLPack calls the memory that NumPy can look at."""


def reject_unknown(
    names: Iterable[str], where: str, others: tuple[str, ...], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Raise for names that are neither options nor among the others that `where` takes, suggesting what was meant."""
    elsewhere = elsewhere or {}
    known = {*(field.name for field in fields(Options)), *others} - set(elsewhere)
    check_names(names, where, known, elsewhere)


def changed_options(base: Options, changes: Mapping[str, Any]) -> Options:
    """Options with some of them changed, checked."""
    if "n_jobs" in changes:
        changes = {**changes, "n_jobs": n_jobs_or_one(changes["n_jobs"])}
    return replace(base, **changes)


def seed_or_fresh(seed: int | None) -> int:
    """Return the seed, or one that nobody can foresee where there is none."""
    return secrets.randbits(63) if seed is None else seed


def n_jobs_or_one(n_jobs: int | None) -> int:
    """Return the number of threads; as in scikit-learn, None is one."""
    return 1 if n_jobs is None else n_jobs


def check_k(k: object) -> int:
    """Check the number of atoms asked for."""
    if type(k) is int and 0 < k <= _MOST_ATOMS:
        return k
    k = check_integer("k", k, minimum=1)
    if k > _MOST_ATOMS:
        raise ValueError(f"k must be at most {_MOST_ATOMS}, got {k}")
    return k


def check_bucket_size(bucket_size: object, objective: str) -> int | None:
    """Check the size of norm bins, and that norms say something about the objective."""
    if bucket_size is None:
        return None
    if objective != "inner_product":
        raise ValueError(f"bucket_size sorts by norm, which bounds inner products only, not objective={objective!r}")
    return check_integer("bucket_size", bucket_size, minimum=1)


def check_layout(layout: object, max_extra_memory: object) -> tuple[Layout, int | None]:
    """Check what an index may keep beside the atoms."""
    check_choice("layout", layout, LAYOUTS)
    known = cast(Layout, layout)
    if max_extra_memory is None:
        return known, None
    return known, check_integer("max_extra_memory", max_extra_memory, minimum=0)


def check_positive(name: str, value: object) -> int:
    """Check a number of things, of which there must be some."""
    return check_integer(name, value, minimum=1)


def as_store(atoms: Any) -> AtomStore:
    """Wrap what a user calls atoms as a store: without copying it, and without reading more than it must."""
    from banditmips.atoms import DenseStore, MappedSparseStore, MappedStore, SparseStore, map_of, maps_in

    if type(atoms) is np.ndarray and map_of(atoms) is None:
        # The common case first: in a small search every further question takes a fair part of the time.
        _check_dtype("atoms", atoms.dtype)
        _check_atoms_shape(atoms.shape)
        return DenseStore(atoms)
    from banditmips._opening import open_atoms, store_of_foreign

    if isinstance(atoms, (str, os.PathLike)):
        return open_atoms(atoms)
    if all(hasattr(atoms, name) for name in ("gather", "scores", "blocks")):
        _check_atoms_shape(atoms.shape)
        store: AtomStore = atoms
        return store
    if _is_sparse(atoms):
        _check_atoms_shape(atoms.shape)
        _check_dtype("atoms", atoms.dtype)
        return MappedSparseStore(atoms) if maps_in(atoms) else SparseStore(atoms)
    opened = store_of_foreign(atoms)
    if opened is not None:
        return opened
    array = _as_array("atoms", atoms)
    _check_atoms_shape(array.shape)
    return DenseStore(array) if map_of(array) is None else MappedStore(array)


def as_queries(queries: Any, d: int) -> tuple[NDArray[Any], bool]:
    """Return the queries as an (m, d) array of their own dtype, and whether there was a single 1-d one."""
    if _is_sparse(queries):
        from banditmips.atoms.sparse import check_sparse

        _check_dtype("queries", queries.dtype)
        # Twice: what other formats hold (lists, dictionaries) shows when it has become rows.
        array = check_sparse(check_sparse(queries, "queries").tocsr(), "queries").toarray()
    else:
        array = _as_array("queries", queries)
    if array.ndim not in (1, 2):
        raise ValueError(f"queries must be one query (1-d) or a batch (2-d), got {array.ndim} dimensions")
    if array.shape[-1] != d:
        turned = "; transposed they would fit" if array.ndim == 2 and array.shape[0] == d else ""
        raise ValueError(
            f"queries has {array.shape[-1]} columns, but the atoms have {d}{turned} "
            f"(argument 'queries', shape {tuple(array.shape)})"
        )
    return (array[np.newaxis] if array.ndim == 1 else array), array.ndim == 1


def as_finite(query: NDArray[Any], where: str) -> NDArray[np.float64]:
    """Return one query in double precision, checked for NaN and infinities; `where` says which row of a batch it is."""
    with np.errstate(over="ignore"):
        floats = np.ascontiguousarray(query, dtype=np.float64)
    if not np.isfinite(floats).all():
        j = int(np.flatnonzero(~np.isfinite(floats))[0])
        raise ValueError(f"queries has {floats[j]} at {where}column {j} (argument 'queries')")
    return floats


def as_mask(mask: Any, n: int, m: int, single: bool) -> NDArray[np.bool_] | None:
    """Return the mask of excluded atoms as an (m, n) array (a view where one mask serves all queries), or None."""
    if mask is None:
        return None
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise TypeError(f"mask must hold booleans (True excludes the atom), got dtype {array.dtype}")
    allowed = [(n,)] if single else [(n,), (m, n)]
    if array.shape not in allowed:
        shapes = " or ".join(str(shape) for shape in allowed)
        raise ValueError(f"mask must have shape {shapes}, got {array.shape}")
    return np.broadcast_to(array, (m, n))


def check_rows(name: str, rows: Any, n: int) -> NDArray[np.int64]:
    """Check indices of atoms."""
    array = np.atleast_1d(np.asarray(rows))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    array = array.astype(np.int64)
    outside = array[(array < 0) | (array >= n)]
    if outside.size:
        raise ValueError(f"{name} must lie in 0..{n - 1}, got {outside[0]}")
    return array


def _is_sparse(value: Any) -> bool:
    # Whoever has a sparse matrix has imported SciPy's; nobody else should wait for it.
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(value))


def _as_array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise TypeError(f"{name} is a masked array; fill the masked entries first (numpy.ma.filled)")
        value = np.ma.getdata(value)
    value = _plain_tensor(name, value)
    try:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"{name} cannot be read as an array: {_why_not_an_array(value, error)}") from error
    if array.ndim == 0 and array.dtype.kind in "OUS":
        raise TypeError(f"{name} must be an array, or what NumPy makes one of, got {_shown(value)}")
    _check_dtype(name, array.dtype)
    return array


def _why_not_an_array(value: Any, error: Exception) -> str:
    """Say what is wrong with something that NumPy makes no array of."""
    if "inhomogeneous" in str(error):
        return "its rows differ in length"
    device = getattr(value, "__dlpack_device__", None)
    if device is not None and device()[0] != _CPU:
        return f"{error}; move it to the CPU first"
    return str(error)


def _shown(value: Any) -> str:
    """Show a value that is no array, and what to do with it."""
    if isinstance(value, str):
        return f"the string {value!r}: read the file first, as with numpy.load, if it is the path of one"
    if isinstance(value, bytes):
        return f"the bytes {value!r}: paths are strings here"
    if isinstance(value, (Set, Iterator)):
        return f"a {type(value).__name__}: make a list of it"
    return "None" if value is None else f"a {type(value).__name__}"


def _plain_tensor(name: str, value: Any) -> Any:
    """Return a PyTorch tensor so that NumPy can look at its memory; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "cpu":
        raise TypeError(f"{name} is a tensor on {value.device}: move it to the CPU first (tensor.cpu())")
    if value.layout != torch.strided:
        raise TypeError(
            f"{name} is a tensor of layout {value.layout}: make a SciPy sparse matrix or a dense tensor of it"
        )
    if value.dtype == torch.bfloat16:
        raise TypeError(f"{name} is a tensor of bfloat16, which NumPy does not know: convert it (tensor.float())")
    return value.detach()


def _check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "fiub":
        # What pandas makes of columns that may lack values.
        hint = ": convert them first, a pandas frame by frame.to_numpy(dtype=float)" if dtype.kind == "O" else ""
        raise TypeError(f"{name} must hold real numbers, got dtype {dtype}{hint}")


def _check_atoms_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"atoms must be a matrix (one atom in each row), got {len(shape)} dimensions, shape {shape}")
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"atoms is empty: shape {tuple(shape)} (argument 'atoms')")
