"""What reading and multiplying cost on this machine, in nanoseconds: the constants of the planner's cost model.

They are measured once (in a fraction of a second), kept in the user's cache folder, and can be overridden with the
environment variable ``BANDITMIPS_COSTS``: a JSON object with any of the fields of `Costs`.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from banditmips._version import __version__

__all__ = ["Costs", "costs", "measure_costs"]


@dataclass(frozen=True)
class Costs:
    """Nanoseconds for one value, unless it says otherwise. The defaults are those of a 2023 server core.

    Attributes
    ----------
    stream, near_stream
        A value of a whole row, multiplied (BLAS, and our exact products): read from memory, and where all atoms are in
        the processor's cache.
    block
        A cached coordinate of an atom in round one: a sum and a paired variance.
    prefix, prefix_row
        A cached coordinate of a surviving atom in a later round, and going to that atom's place in memory.
    gather
        A value read on its own from a row-major matrix: a cache line, most of which is not wanted.
    column
        A value read from a coordinate-major matrix, where neighbouring atoms share the cache line.
    arithmetic
        A value that has been gathered before and takes part in a round again.
    round_overhead, call_overhead
        One round, and what the Python around a race takes longer than that around a full product.
    """

    stream: float = 0.23
    near_stream: float = 0.09
    block: float = 0.22
    prefix: float = 0.25
    prefix_row: float = 60.0
    gather: float = 12.0
    column: float = 1.2
    arithmetic: float = 0.3
    round_overhead: float = 500.0
    call_overhead: float = 15_000.0

    def stream_of(self, n_values: int) -> float:
        """Return what a value costs if the atoms have so many: between cache and memory, more with each doubling."""
        part = np.log2(max(n_values, 1) / _NEAR) / np.log2(_FAR / _NEAR)
        return float(self.near_stream + np.clip(part, 0.0, 1.0) * (self.stream - self.near_stream))


_NEAR, _FAR = 1 << 21, 1 << 23
"""Values (of four bytes) that a processor's last cache is taken to hold, and that it is taken not to hold."""
_MEASURED = ("stream", "near_stream", "block", "prefix", "gather", "arithmetic")


def _best_time(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest of a few runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def measure_costs() -> Costs:
    """Measure the constants that differ most between machines: streaming, gathering, and cached arithmetic."""
    from banditmips.race import block_rounds, kernels

    rng = np.random.default_rng(0)
    n, d, size = 1024, 16384, 32
    atoms = np.ones((n, d), dtype=np.float32)
    query = np.ones(d, dtype=np.float32)
    every = np.arange(n)
    columns = rng.permutation(d)[: 4 * size].reshape(4, size)
    out = np.empty((n, size))
    block = rng.standard_normal((size, n), dtype=np.float32)
    sums = np.empty((2, n), dtype=np.float32)

    def play_block() -> None:
        block_rounds.block_pairs(block, every, query, 0, size, query, sums[0], sums[1])

    play_block()
    kernels.gather(atoms, every[:1], columns[0], out[:1])
    # Other columns each time: what has been gathered once would come from a cache.
    gather = min(_best_time(lambda c=c: kernels.gather(atoms, every, c, out), 1) for c in columns)  # type: ignore[misc]
    stream = _best_time(lambda: atoms @ query)
    near, near_query = atoms.reshape(-1)[: n * n].reshape(n, n), query[:n]
    near_stream = _best_time(lambda: near @ near_query, 10)
    block_time = _best_time(play_block, 20)
    defaults = Costs()
    measured_block = 1e9 * block_time / (n * size)
    scale = measured_block / defaults.block
    return replace(
        defaults,
        stream=1e9 * stream / (n * d),
        near_stream=1e9 * near_stream / (n * n),
        gather=1e9 * gather / (n * size),
        block=measured_block,
        prefix=scale * defaults.prefix,
        arithmetic=scale * defaults.arithmetic,
    )


def _cache_file() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = f"costs-{platform.node() or 'host'}-{platform.machine()}-{os.cpu_count()}.json"
    return Path(folder, "banditmips", name)


def _parse(text: str, source: str) -> dict[str, float]:
    known = {field.name for field in fields(Costs)}
    try:
        values = json.loads(text)
        numbers = {str(name): float(value) for name, value in values.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{source} must be a JSON object of numbers, got {text[:80]!r}") from error
    unknown = set(numbers) - known
    if unknown or not all(0.0 < value < np.inf for value in numbers.values()):
        raise ValueError(
            f"{source} must hold positive numbers for some of {', '.join(sorted(known))}, got {text[:200]!r}"
        )
    return numbers


@lru_cache(maxsize=1)
def costs() -> Costs:
    """Return this machine's constants: overridden, remembered, or measured now."""
    override = os.environ.get("BANDITMIPS_COSTS")
    if override:
        return replace(Costs(), **_parse(override, "BANDITMIPS_COSTS"))
    path = _cache_file()
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["version"] == __version__:
            return replace(Costs(), **_parse(json.dumps(saved["costs"]), str(path)))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing usable was kept: measure
    measured = measure_costs()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.part")
        kept = {name: getattr(measured, name) for name in _MEASURED}
        temporary.write_text(json.dumps({"version": __version__, "costs": kept}), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        pass  # a read-only home: the next process measures again
    return measured
