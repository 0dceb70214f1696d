"""The rows of a run: one flat JSON object in each line of ``rows.jsonl``, written the moment it is measured.

A line counts once its newline is on the disk. What a killed run leaves after the last newline is dropped by
`read_rows`, and cut off before `append_row` adds to the file; so a file is never left with a broken row within it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, BinaryIO

from banditmips._files import check_target, open_regular

__all__ = [
    "DRAWN",
    "FIGURES",
    "FITTED",
    "OURS",
    "PAPER",
    "ROWS_FILE",
    "RUN_FILE",
    "SETTINGS",
    "SURROGATE",
    "VARIANCE",
    "Row",
    "append_row",
    "identity_key",
    "read_rows",
    "row_key",
]

ROWS_FILE, RUN_FILE = "rows.jsonl", "run.json"

FIGURES = (
    *(f"figure{number}" for number in range(1, 10)),
    "beyond_bounds",
    "beyond_clock",
    "beyond_delta",
    "beyond_epsilon",
    "beyond_failures",
    "beyond_kinds",
    "beyond_sampling",
    "beyond_theorem1",
    "beyond_warm_start",
)
"""The values of `Row.figure`."""

PAPER, VARIANCE, OURS, FITTED = "paper", "variance", "ours", "fitted"
SETTINGS = (PAPER, VARIANCE, OURS, FITTED)
"""The values of `Row.settings`: as the paper has it, the same with its sigma read as a variance (where that is another
number), and this package's defaults without an index and after `fit`."""

DRAWN, SURROGATE = "drawn", "surrogate"
"""Values of `Row.origin`: drawn by the dataset's own law, and drawn in place of files that are not there. Real data
have the names of their files there, and a fingerprint."""

_IDENTITY = (
    *("figure", "dataset", "origin", "algorithm", "settings", "n", "d", "k", "delta", "epsilon", "parameters"),
    "trial",
)


@dataclass(frozen=True)
class Row:
    """One trial of one algorithm at one setting.

    Attributes
    ----------
    figure
        One of `FIGURES`.
    dataset
        The paper's name: NORMAL_CUSTOM, CORRELATED_NORMAL_CUSTOM, Netflix, MovieLens, Sift-1M, CryptoPairs, SimpleSong
        or SymmetricNormal. Besides, MovieLens-100K, and those of `banditmips.experiments.kinds`.
    origin
        Where the data came from: `DRAWN`, `SURROGATE`, or files (see `banditmips.experiments.origins`). Rows of
        different origin are different rows.
    algorithm
        The name in the authors' logs: BanditMIPS, BanditMIPS-alpha, Bucket_AE, BoundedME, Greedy-MIPS, LSH-MIPS,
        PCA-MIPS, H2-ALSH-MIPS, NEQ-MIPS, HNSW-MIPS, NAPG-MIPS or Naive. Besides, MatchingPursuit in figure 8,
        "Bucket_AE, exact norms" in figure 7, "BoundedME, true range" where products are not taken to lie within an
        interval of length 1, and "BanditMIPS, warm start" in beyond_warm_start.
    settings
        One of `SETTINGS`; baselines have "paper".
    n, d, k
        Atoms, coordinates, and how many atoms were asked for.
    delta, epsilon
        Of the methods that have them. Epsilon is per coordinate (inner product / d), as in the paper.
    parameters
        Swept hyperparameters of the method, and what else sets a row apart within its figure: ``scaling`` ("n" or "d")
        in figure 7, ``bound``, ``sampling`` and ``sigma`` in beyond_bounds, ``sampling`` and ``beta`` in
        beyond_sampling, ``queries`` in beyond_warm_start.
    trial, seed
        Number of the trial from 0, and the seed that it was made with.
    multiplies
        Mean per query.
    accuracy
        precision@k between 0 and 1, by exact products of the returned atoms; a mean over the queries.
    naive
        n * d, the multiplies of the naive algorithm.
    seconds
        Wall clock per query.
    extra
        What there is besides: ``blas_seconds``, a full product by BLAS on the same data; ``fast_seconds``,
        ``fast_multiplies`` and ``fast_accuracy``, the same search asked for little time in place of few multiplies
        (settings "ours" and "fitted"); ``fit_seconds``; ``preparation_multiplies`` (Bucket_AE); ``song_minutes``,
        ``notes`` and ``coefficients`` (figure 8); ``failures``, ``trials`` and ``sampled`` (beyond_failures,
        beyond_kinds); ``bound_theorem1`` and ``capped`` (beyond_theorem1); ``variance_over_optimal``
        (beyond_sampling).
    """

    figure: str
    dataset: str
    origin: str
    algorithm: str
    settings: str
    n: int
    d: int
    k: int
    delta: float | None
    epsilon: float | None
    trial: int
    seed: int
    multiplies: float
    accuracy: float
    naive: float
    seconds: float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise ValueError(f"figure must be one of {', '.join(FIGURES)}, got {self.figure!r}")
        if self.settings not in SETTINGS:
            raise ValueError(f"settings must be one of {', '.join(SETTINGS)}, got {self.settings!r}")

    @property
    def surrogate(self) -> bool:
        """Whether synthetic numbers stood in for the real data."""
        return self.origin == SURROGATE

    def to_json(self) -> str:
        """Return the row as one line of JSON, without its newline."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Return the row that `to_json` wrote.

        Raises
        ------
        ValueError
            If the line is no JSON, or no row.
        """
        values = json.loads(line)
        names = {each.name for each in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ValueError(f"not a row: expected an object with the fields {', '.join(sorted(names))}")
        return cls(**values)


def row_key(row: Row) -> str:
    """Return what tells a row from every other of a run: all but what was measured.

    Examples
    --------
    >>> row = Row("figure1", "NORMAL_CUSTOM", DRAWN, "BanditMIPS", "ours", 100, 1000, 1, 0.001, None, trial=0, seed=0,
    ...           multiplies=9e3, accuracy=1.0, naive=1e5, seconds=1e-3)
    >>> row_key(Row.from_json(row.to_json())) == row_key(row)
    True
    """
    return identity_key(**{name: getattr(row, name) for name in _IDENTITY})


def identity_key(**fields: Any) -> str:
    """Return the key of the row that will have these values in the fields that make up a key."""
    return json.dumps([fields[name] for name in _IDENTITY], sort_keys=True)


def append_row(path: str | os.PathLike[str], row: Row) -> None:
    """Add a row to the file, on the disk when this returns; a line that was cut off before is removed first."""
    line = (row.to_json() + "\n").encode()
    check_target(path)
    with open(path, "ab+", buffering=0) as file:
        file.truncate(_whole_size(file))
        if file.write(line) < len(line):  # a full disk: the next call or reader drops what was written
            raise OSError(f"{os.fspath(path)}: a row could not be written whole")
        os.fsync(file.fileno())


def _whole_size(file: BinaryIO) -> int:
    """Return the size of an open file up to and with its last newline."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        block = file.read(end - start)
        if (newline := block.rfind(b"\n")) >= 0:
            return start + newline + 1
        end = start
    return 0


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Return the rows of a file in their order; of rows with the same key the first, and none of a missing file.

    Raises
    ------
    ValueError
        If a whole line is not a row; the message names it.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except FileNotFoundError:
        return []
    rows: dict[str, Row] = {}
    whole_lines = content[: content.rfind(b"\n") + 1].splitlines()
    for number, line in enumerate(whole_lines, start=1):
        try:
            row = Row.from_json(line.decode())
        except (ValueError, TypeError) as error:
            raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from error
        rows.setdefault(row_key(row), row)
    return list(rows.values())
