"""Other people's options: shapes, kinds of data, dtypes, orders, objectives, k and batches drawn at random each time.

What is measured is not chosen by us, and another run draws others (the seed is that of the clock, and kept). Beside a
search stands NumPy, with everything prepared that an index has prepared (atoms in float32 or float64, of length one for
cosines); and beside a search without an index, NumPy that begins with the same array.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips._options import Layout
from benchmarks.goals import Goal, Line
from benchmarks.measure import Entrant, measure
from benchmarks.records import Record
from benchmarks.runner import Outcome, check_answers
from benchmarks.truth import plausible
from benchmarks.workloads import Scale

__all__ = ["NAME", "Drawn", "draw", "run_drawn"]

NAME = "drawn-options"
_COUNT, _QUICK_COUNT = 48, 6
_REQUESTS, _BUDGET = 4, 0.15
"""Requests of a configuration, and seconds for one way of answering it, warm and cold each."""
_ENTRIES = (1e6, 4e7)
_WITHIN = 1.0 / 1.1
"""At most a tenth slower."""
_SHOWN = 5
"""Configurations of each way that are shown, the worst first."""
_KINDS = ("normal", "low rank", "clusters", "planted", "pareto", "positive", "decaying", "counts")
_HOW: tuple[dict[str, Any], ...] = (
    {"bound": "paired"},
    {"bound": "bernstein"},
    {"bound": "hoeffding"},
    {"bound": "hoeffding_serfling"},
    {"sampling": "uniform"},
    {"sampling": "weighted", "beta": 1.0},
    {"replacement": True},
    {"rescore": False},
    {"trace": True},
)
"""Options that say how to search; a third of the configurations has one of them."""
_KEPT: tuple[Layout, ...] = ("codes", "coordinates", "none", "full")
"""What an index keeps where that is not left to it."""


@dataclass(frozen=True)
class Drawn:
    """One configuration: atoms and queries, and what is asked."""

    text: str
    atoms: NDArray[Any]
    requests: list[NDArray[Any]]
    k: int
    objective: str
    absolute: bool
    epsilon: float
    mask: NDArray[np.bool_] | None
    how: dict[str, Any]
    layout: Layout
    n_added: int

    @property
    def options(self) -> dict[str, Any]:
        """Those of a search."""
        return {"objective": self.objective, "absolute": self.absolute, "epsilon": self.epsilon, **self.how}

    def index(self, n_jobs: int) -> bm.BanditMIPS:
        """An index, the last atoms of which may have been added later."""
        first = len(self.atoms) - self.n_added
        index = bm.BanditMIPS(layout=self.layout, n_jobs=n_jobs, **self.options).fit(self.atoms[:first])
        return index.add(self.atoms[first:]) if self.n_added else index


def draw(rng: np.random.Generator, entries: tuple[float, float] = _ENTRIES) -> Drawn:
    """Draw a configuration."""
    n, d = 0, 0
    while not entries[0] < n * d < entries[1]:
        n, d = int(10 ** rng.uniform(2, 4.5)), int(10 ** rng.uniform(2, 5))
    m, kind = int(rng.choice([1, 1, 1, 2, 4, 8, 16, 64, 150])), str(rng.choice(_KINDS))
    k = min(int(rng.choice([1, 1, 5, 10, 20, 100])), n // 8)
    dtype = str(rng.choice(["f4", "f4", "f4", "f4", "f8", "f8", "f2", "i1", "u1", "i2", "i4"]))
    order, objective = (
        str(rng.choice(["C", "C", "F"])),
        str(rng.choice(["inner_product", "inner_product", "cosine", "correlation", "neg_sqeuclidean"])),
    )
    absolute = bool(rng.random() < 0.15) and objective != "neg_sqeuclidean"
    epsilon = 1e-6 if rng.random() < 0.2 else 0.0
    mask = rng.random(n) < 0.1 if rng.random() < 0.15 else None
    how = dict(_HOW[rng.integers(len(_HOW))]) if rng.random() < 1 / 3 else {}
    if how.get("sampling") == "weighted" and objective == "neg_sqeuclidean":
        how = {}  # refused: a query's entries say nothing about differences
    layout: Layout = _KEPT[rng.integers(len(_KEPT))] if rng.random() < 0.15 else "auto"
    n_added = n // 3 if rng.random() < 0.15 and layout != "full" else 0
    atoms, queries = _numbers(rng, kind, n, d, max(_REQUESTS, m))
    if dtype[0] in "iu":
        largest = min(np.iinfo(dtype).max, 30_000)
        atoms = np.clip(atoms / np.abs(atoms).max() * largest * (4 if kind == "normal" else 1), -largest, largest)
        atoms = np.abs(atoms) if dtype == "u1" else atoms
    atoms = np.asarray(np.clip(atoms, -6e4, 6e4).astype(dtype), order="F" if order == "F" else "C")
    if "bound" in how and how["bound"] != "paired":
        how["value_range"] = (float(atoms.min()), float(atoms.max()))
    queries = queries.astype(np.float64 if dtype == "f8" else np.float32)
    requests = list(queries) if m == 1 else [np.roll(queries, i, axis=0)[:m] for i in range(_REQUESTS)]
    asked = [f"{n:,} x {d:,}", f"k = {k}", f"batch of {m}" if m > 1 else "one query", kind, dtype]
    asked += ["Fortran order"] * (order == "F") + [objective] * (objective != "inner_product")
    asked += ["absolute"] * absolute + ["epsilon"] * (epsilon > 0.0) + ["mask"] * (mask is not None)
    asked += [f"{name}={value}" for name, value in how.items() if name not in ("beta", "value_range")]
    asked += [f"layout={layout}"] * (layout != "auto") + ["a third added"] * (n_added > 0)
    return Drawn(", ".join(asked), atoms, requests, k, objective, absolute, epsilon, mask, how, layout, n_added)


def _numbers(rng: np.random.Generator, kind: str, n: int, d: int, m: int) -> tuple[NDArray[Any], NDArray[Any]]:
    normal = rng.standard_normal
    if kind == "low rank":
        basis = normal((20, d))
        return normal((n, 20)) @ basis + 0.3 * normal((n, d)), normal((m, 20)) @ basis + 0.3 * normal((m, d))
    if kind == "clusters":
        centres = normal((30, d))
        atoms = centres[rng.integers(0, 30, n)] + 0.5 * normal((n, d))
        return atoms, centres[rng.integers(0, 30, m)] + 0.5 * normal((m, d))
    if kind == "planted":
        atoms = normal((n, d))
        return atoms, atoms[rng.integers(0, n, m)] + normal((m, d))
    if kind == "counts":
        rates = rng.random(d) ** 8
        return rng.poisson(rates, (n, d)).astype(np.float64), rng.poisson(rates, (m, d)).astype(np.float64)
    if kind == "pareto":
        return rng.pareto(1.5, (n, d)), rng.pareto(1.5, (m, d))
    if kind == "positive":
        return rng.random((n, d)), rng.random((m, d))
    scale = np.arange(1, d + 1) ** -0.7 if kind == "decaying" else 1.0
    return normal((n, d)) * scale, normal((m, d)) * scale


def _ranked(drawn: Drawn, scores: NDArray[Any]) -> NDArray[Any]:
    if drawn.absolute:
        scores = np.abs(scores)
    return scores if drawn.mask is None else np.where(drawn.mask, -np.inf, scores)


def _best(drawn: Drawn, scores: NDArray[Any], k: int) -> NDArray[Any]:
    ranked = _ranked(drawn, scores)
    if k == 1:
        return np.asarray(ranked.argmax(axis=-1))
    return np.argpartition(ranked, ranked.shape[-1] - k, axis=-1)[..., -k:]


def _prepared(drawn: Drawn) -> Callable[[NDArray[Any], int], NDArray[Any]]:
    """NumPy that knows as much as an index does."""
    atoms = drawn.atoms if drawn.atoms.dtype in (np.float32, np.float64) else drawn.atoms.astype(np.float32, order="K")
    if drawn.objective == "correlation":
        atoms = atoms - atoms.mean(axis=1, keepdims=True)
    if drawn.objective in ("cosine", "correlation"):
        atoms = atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1e-30)
    halves = np.square(atoms).sum(axis=1) / 2

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        scores = atoms @ request if request.ndim == 1 else request @ atoms.T
        return _best(drawn, scores - halves if drawn.objective == "neg_sqeuclidean" else scores, k)

    return search


def _from_the_beginning(drawn: Drawn) -> Callable[[NDArray[Any], int], NDArray[Any]]:
    """NumPy that is given an array."""

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        atoms = drawn.atoms
        if atoms.dtype not in (np.float32, np.float64):
            atoms = atoms.astype(np.float32, order="K")
        scores = atoms @ request if request.ndim == 1 else request @ atoms.T
        if drawn.objective == "correlation":
            scores = scores - request.mean(axis=-1, keepdims=True) * atoms.sum(axis=1)
        if drawn.objective != "inner_product":
            squares = np.einsum("ij,ij->i", atoms, atoms)
            if drawn.objective == "correlation":
                squares = squares - atoms.sum(axis=1) ** 2 / atoms.shape[1]
            is_difference = drawn.objective == "neg_sqeuclidean"
            scores = scores - squares / 2 if is_difference else scores / np.sqrt(np.maximum(squares, 1e-30))
        return _best(drawn, scores, k)

    return search


def _truth(drawn: Drawn, request: NDArray[Any]) -> NDArray[np.float64]:
    """What is ranked, in float64."""
    queries = np.atleast_2d(request).astype(np.float64)
    scores = np.empty((len(queries), len(drawn.atoms)))
    if drawn.objective == "correlation":
        queries = queries - queries.mean(axis=1, keepdims=True)
    for start in range(0, len(drawn.atoms), 256):
        block = drawn.atoms[start : start + 256].astype(np.float64)
        if drawn.objective == "correlation":
            block -= block.mean(axis=1, keepdims=True)
        products, squares = queries @ block.T, np.square(block).sum(axis=1)
        if drawn.objective == "neg_sqeuclidean":
            products = 2.0 * products - squares - np.square(queries).sum(axis=1)[:, np.newaxis]
        elif drawn.objective != "inner_product":
            products /= np.sqrt(np.maximum(squares, 1e-30))
        scores[:, start : start + 256] = products
    return _ranked(drawn, scores)


def _records(drawn: Drawn, scale: Scale) -> list[Record]:
    options, mask = {**drawn.options, "n_jobs": scale.threads}, drawn.mask
    index = drawn.index(scale.threads)
    ways: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
        "fitted": lambda request, k: index.search(request, k=k, mask=mask).indices,
        "NumPy, prepared": _prepared(drawn),
        "no fit": lambda request, k: bm.search(drawn.atoms, request, k=k, mask=mask, **options).indices,
        "NumPy": _from_the_beginning(drawn),
    }
    entrants = [Entrant(name, way, drawn.requests, drawn.requests[-1], drawn.k) for name, way in ways.items()]
    measure(entrants, 3 * scale.repeats, min(_BUDGET, scale.budget))
    truth = [_truth(drawn, request) for request in drawn.requests]
    shape = (drawn.atoms.shape[0], drawn.atoms.shape[1])
    return [
        Record(
            NAME,
            shape,
            drawn.text,
            entrant.name,
            "flat" if entrant.name.startswith("NumPy") else "ours",
            entrant.warm,
            entrant.cold,
            check_answers(entrant.answers, truth, drawn.k, drawn.epsilon),
        )
        for entrant in entrants
    ]


def run_drawn(scale: Scale, count: int | None = None, entries: tuple[float, float] = _ENTRIES) -> Outcome:
    """Draw configurations and measure them; the worst are shown, and how many are within a tenth of NumPy."""
    seed = int(time.time())
    rng = np.random.default_rng(seed)
    count = (_QUICK_COUNT if scale.quick else _COUNT) if count is None else count
    outcome = Outcome(notes=[f"{NAME}: seed {seed}"])
    groups = [_records(draw(rng, entries), scale) for _ in range(count)]
    outcome.records = [record for group in groups for record in group]
    for ours, reference in ((0, 1), (2, 3)):
        pairs = [(group[ours], group[reference]) for group in groups]
        pairs.sort(key=lambda pair: _ratio(*pair))
        within = sum(_ratio(*pair) >= _WITHIN for pair in pairs)
        name = f"drawn options, {pairs[0][0].name}"
        outcome.lines.append(
            _line(f"{name}: median of {count}, of which {within} are within a tenth", pairs[count // 2])
        )
        outcome.lines.append(_line(f"{name}: a tenth is worse than", pairs[count // 10]))
        outcome.lines += [_line(f"{name}, number {i + 1} from below", pair) for i, pair in enumerate(pairs[:_SHOWN])]
    return outcome


def _ratio(ours: Record, reference: Record) -> float:
    return reference.summary().median / ours.summary().median


def _line(text: str, pair: tuple[Record, Record]) -> Line:
    ours, reference = pair
    return Line(
        f"{text}: {ours.asked}",
        Goal("speed_up", _WITHIN),
        _ratio(ours, reference),
        ours=ours.summary().median,
        reference=reference.summary().median,
        reference_name=reference.name,
        recall=float(np.mean(ours.right)),
        n_answers=len(ours.right),
        answers_plausible=plausible(ours.right, 1e-3),
    )
