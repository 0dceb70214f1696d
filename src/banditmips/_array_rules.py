"""What the arrays of a file must be before anything is read by them: types, shapes, and entries that say where to read.

A file may have been written by anybody. A wrong number gives a wrong answer, but a wrong place gives a crash, so shapes
and places are checked once, here. A new array of a format takes one line: its `ArrayRule`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayRule", "checked_array", "checked_arrays"]


@dataclass(frozen=True)
class ArrayRule:
    """What an array must be.

    Attributes
    ----------
    dtype : str
        As in ``"f8"``, or ``"f4|f8"`` for one of several; several letters without a number stand for kinds (``"fiub"``
        are all real numbers); a name of the known types stands for that one.
    shape : tuple of int or str
        A name stands for one size throughout the file; the first array that has it says how large it is.
    below : str or int, optional
        Entries are places: at least 0, and less than this size. They are copied into memory.
    distinct : bool
        No entry comes twice.
    optional : bool
        Whether the array may be missing.
    """

    dtype: str
    shape: tuple[int | str, ...]
    below: str | int | None = None
    distinct: bool = False
    optional: bool = False


def checked_arrays(
    arrays: Mapping[str, NDArray[Any]],
    rules: Mapping[str, ArrayRule],
    sizes: dict[str, int],
    dtypes: Mapping[str, np.dtype[Any]],
) -> dict[str, NDArray[Any]]:
    """Return the arrays that there are rules for, checked.

    Parameters
    ----------
    sizes
        Sizes known by name; those that arrays determine are added.
    dtypes
        Types known by name.

    Raises
    ------
    ValueError
        If an array is missing, or is not what its rule says.

    Examples
    --------
    >>> import numpy as np
    >>> rules = {"order": ArrayRule("i8", ("p",), below="d"), "prefix": ArrayRule("f4", ("n", "p"))}
    >>> arrays = {"order": np.array([2, 0]), "prefix": np.zeros((3, 2), dtype=np.float32)}
    >>> checked_arrays(arrays, rules, {"n": 3, "d": 4}, {})["order"]
    array([2, 0])
    >>> arrays["order"][0] = 4
    >>> checked_arrays(arrays, rules, {"n": 3, "d": 4}, {})
    Traceback (most recent call last):
    ValueError: its order holds 4 at place 0, outside 0..3
    """
    found = {}
    for name, rule in rules.items():
        if name in arrays:
            found[name] = checked_array(name, arrays[name], rule, sizes, dtypes)
        elif not rule.optional:
            raise ValueError(f"it has no {name}")
    return found


def checked_array(
    name: str, array: NDArray[Any], rule: ArrayRule, sizes: dict[str, int], dtypes: Mapping[str, np.dtype[Any]]
) -> NDArray[Any]:
    """Check one array (as `checked_arrays` does) and return it as a plain one."""
    array = np.asarray(array)
    if not _has_dtype(array.dtype, rule.dtype, dtypes):
        expected = dtypes.get(rule.dtype, rule.dtype)
        raise ValueError(f"its {name} holds {array.dtype}, where {expected} was expected")
    expected_shape = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in rule.shape)
    fits = len(array.shape) == len(rule.shape) and all(
        isinstance(size, str) or size == length for size, length in zip(expected_shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"its {name} has shape {array.shape}, where {expected_shape} was expected")
    sizes.update({s: n for s, n in zip(rule.shape, array.shape, strict=True) if isinstance(s, str)})
    if rule.dtype == "b1" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError(f"its {name} holds a boolean that is neither 0 nor 1")
    if rule.below is not None:
        limit = sizes[rule.below] if isinstance(rule.below, str) else rule.below
        array = np.array(array)  # out of the file, so that it stays what was checked
        _check_places(name, array, limit)
    if rule.distinct and np.unique(array).size < array.size:
        raise ValueError(f"its {name} holds an entry twice")
    return array


def _has_dtype(dtype: np.dtype[Any], expected: str, dtypes: Mapping[str, np.dtype[Any]]) -> bool:
    if expected in dtypes:
        return dtype.newbyteorder("<") == dtypes[expected].newbyteorder("<")
    return dtype.kind in expected if expected.isalpha() else dtype.str[1:] in expected.split("|")


def _check_places(name: str, array: NDArray[Any], limit: int) -> None:
    outside = np.flatnonzero((array < 0) | (array >= limit))
    if outside.size:
        at = int(outside[0])
        raise ValueError(f"its {name} holds {array.flat[at]} at place {at}, outside 0..{limit - 1}")
