"""What several suites share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from banditmips.atoms.parts import Part, PartStore, Span

# What a plan decides rests on what things take on a machine, and other work on it would change what is tested. Tests of
# plans move these costs by themselves.
_COSTS = {"stream": 0.21, "near_stream": 0.06, "product": 0.033, "row": 0.23, "cell": 0.0056, "rotate": 1.1}
os.environ.setdefault("BANDITMIPS_COSTS", json.dumps(_COSTS))

# typed_calls.py is for a type checker alone, and half of its calls are wrong.
collect_ignore = ["data"]


class LinedArray(PartStore):
    """An array that is read in lines, and knows how many entries were read."""

    def __init__(self, array: NDArray[Any], line_width: int) -> None:
        self._values = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.line_width = line_width
        self.n_read = 0

    def share_of_rows(self, n_rows: int) -> float:
        return n_rows / self.shape[0]

    def spans_of(self, columns: NDArray[np.int64]) -> list[Span]:
        return [self.line(number) for number in np.unique(columns // self.line_width).tolist()]

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        for span, (start, stop) in enumerate(spans):
            self.n_read += rows.size * (stop - start)
            yield Part(span, slice(0, rows.size), start, self._values[rows, start:stop])


@pytest.fixture(scope="session")
def lined_array() -> type[LinedArray]:
    """A store in memory that is read in lines: ``lined_array(array, line_width)``."""
    return LinedArray
