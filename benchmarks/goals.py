"""What is asked of a row, and whether it is reached: never behind the full pass, and far ahead where a goal says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["FIGURES", "Figure", "Goal", "Goals", "Line", "Pair", "Row", "by_key", "losses", "misses", "verdict"]

MOST_MEDIAN, MOST_P95 = 1.05, 1.1
"""What a median may be of the reference's median, and a 95th percentile of the reference's own."""
MOST_FIT, MOST_EXTRA = 8.0, 0.1
"""What a fit may be of one sum over the atoms, and extra memory of the atoms."""
_LARGE, _LONG = 10_000_000, 4_000
"""Entries from which a fit is judged (below, calls are what it takes), and d from which memory is."""


def times(value: float) -> str:
    """Write a ratio."""
    if value >= 100:
        return f"{value:,.0f}x"
    if value >= 2:
        return f"{value:.1f}x"
    return f"{value:.2f}x" if value >= 0.1 else f"{value:.2g}x"


@dataclass(frozen=True)
class Goals:
    """What a row should reach beside never being behind; None where nothing is said.

    Attributes
    ----------
    warm, cold
        Times as fast as the reference.
    p95
        Our 95th percentile over the reference's median.
    share_of
        Key of another row, a third of whose speed-up is wanted.
    added_us
        Microseconds that a small search may take longer than the reference.
    """

    warm: float | None = None
    cold: float | None = None
    p95: float | None = None
    share_of: str | None = None
    added_us: float = 0.0

    def __str__(self) -> str:
        """Write the goals for a table."""
        if self.added_us:
            return f"+{self.added_us:g} us"
        ratios = " / ".join("-" if value is None else times(value) for value in (self.warm, self.cold))
        parts = [] if ratios == "- / -" else [ratios]
        parts += [f"p95 {times(self.p95)} its time"] if self.p95 is not None else []
        parts += ["a third of the default"] if self.share_of is not None else []
        return ", ".join(parts) or "-"


@dataclass(frozen=True)
class Pair:
    """Ours beside the reference in one state of the caches: medians and 95th percentiles in microseconds."""

    ours: float
    ours_p95: float
    reference: float
    reference_p95: float
    reference_name: str

    @property
    def speed_up(self) -> float:
        """The reference's median over ours."""
        return self.reference / self.ours

    @property
    def p95_ratio(self) -> float:
        """Our 95th percentile over the reference's own."""
        return self.ours_p95 / self.reference_p95


@dataclass(frozen=True)
class Row:
    """One way of calling the library on one kind of request, beside the reference.

    Attributes
    ----------
    work
        What was searched; `asked` is the request, `way` how the library was called.
    recall
        Part of the wanted atoms that were found; `n_wrong` of `n_answers` queries lacked one.
    answers_plausible
        Whether the wrong ones are no more than delta explains.
    extra_bytes, fit_seconds
        What the fit cost; None where there was none. `sum_seconds` is one sum over the atoms, of `atom_bytes`.
    """

    section: str
    work: str
    shape: tuple[int, int]
    asked: str
    way: str
    warm: Pair
    cold: Pair
    recall: float
    n_wrong: int
    n_answers: int
    answers_plausible: bool
    goals: Goals = field(default_factory=Goals)
    extra_bytes: int | None = None
    atom_bytes: int = 0
    fit_seconds: float | None = None
    sum_seconds: float | None = None

    @property
    def key(self) -> str:
        """What names this row among all."""
        return f"{self.section} | {self.asked} | {self.way}"

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{self.work} {self.shape[0]:,} x {self.shape[1]:,}, {self.asked}, {self.way}"

    @property
    def fit_of_sum(self) -> float | None:
        """Seconds of a fit over those of a sum."""
        return None if self.fit_seconds is None or not self.sum_seconds else self.fit_seconds / self.sum_seconds

    @property
    def extra_share(self) -> float | None:
        """Extra memory over that of the atoms."""
        return None if self.extra_bytes is None or not self.atom_bytes else self.extra_bytes / self.atom_bytes

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Row:
        """Return the row that was written."""
        parts = {"warm": Pair(**values["warm"]), "cold": Pair(**values["cold"]), "goals": Goals(**values["goals"])}
        return cls(**{**values, **parts, "shape": (values["shape"][0], values["shape"][1])})


def by_key(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the rows by their names."""
    return {row.key: row for row in rows}


def losses(row: Row) -> list[str]:
    """Say in what a row is behind the full pass, or wrong more often than delta: what no row may be."""
    found = [] if row.answers_plausible else [f"{row.n_wrong} of {row.n_answers} wrong"]
    for state, pair in (("warm", row.warm), ("cold", row.cold)):
        spare = row.goals.added_us
        if pair.ours > max(MOST_MEDIAN * pair.reference, pair.reference + spare):
            found.append(f"median {times(pair.ours / pair.reference)} its time {state}")
        if pair.ours_p95 > max(MOST_P95 * pair.reference_p95, pair.reference_p95 + spare):
            found.append(f"p95 {times(pair.p95_ratio)} its p95 {state}")
    return found


def misses(row: Row, rows: Mapping[str, Row]) -> list[str]:
    """Say which goals a row misses; `rows` are those that a goal may name."""
    goals, found = row.goals, []
    for state, pair, limit in (("warm", row.warm, goals.warm), ("cold", row.cold, goals.cold)):
        if limit is not None and pair.speed_up < limit:
            found.append(f"{times(pair.speed_up)} {state}, not {times(limit)}")
    if goals.p95 is not None and row.warm.ours_p95 > goals.p95 * row.warm.reference:
        found.append(f"p95 {times(row.warm.ours_p95 / row.warm.reference)} its time, not {times(goals.p95)}")
    other = rows.get(goals.share_of or "")
    if other is not None and 3.0 * row.warm.speed_up < other.warm.speed_up:
        found.append(f"{times(row.warm.speed_up)} warm where the default is {times(other.warm.speed_up)}")
    n, d = row.shape
    if row.fit_of_sum is not None and row.fit_of_sum > MOST_FIT and n * d >= _LARGE:
        found.append(f"fit {times(row.fit_of_sum)} a sum")
    if row.extra_share is not None and row.extra_share > MOST_EXTRA and d >= _LONG and "layout=full" not in row.way:
        found.append(f"extra memory {row.extra_share:.1%}")
    return found


@dataclass(frozen=True)
class Figure:
    """A kind of number that has goals and is not a row.

    Attributes
    ----------
    at_least
        Whether larger is better.
    write
        The number as text.
    """

    at_least: bool
    write: Callable[[float], str]


FIGURES = {
    "speed_up": Figure(True, times),
    "growth": Figure(False, times),
    "of_published": Figure(False, times),
}
"""Their time over ours; our time at a large d over that at a small one; our multiplies over the published ones."""


@dataclass(frozen=True)
class Goal:
    """A figure, and the least (or largest) value that is good enough."""

    figure: str
    limit: float

    def __str__(self) -> str:
        """Write the goal for a table."""
        figure = FIGURES[self.figure]
        return ("" if figure.at_least else "<= ") + figure.write(self.limit)

    def reached_by(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.limit if FIGURES[self.figure].at_least else value <= self.limit


@dataclass(frozen=True)
class Line:
    """A figure beside its goal.

    Attributes
    ----------
    row
        What was measured.
    value
        The figure that the goal is about.
    ours, reference
        Medians in microseconds, or multiplies.
    reference_name
        What the reference is.
    recall, n_answers
        Part of the distinct answers that were right, and their number.
    answers_plausible
        Whether the wrong ones are no more than delta explains.
    """

    row: str
    goal: Goal
    value: float
    ours: float
    reference: float
    reference_name: str
    recall: float
    n_answers: int
    answers_plausible: bool = True

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Line:
        """Return the line that was written by `dataclasses.asdict`."""
        return cls(**{**values, "goal": Goal(**values["goal"])})


def verdict(line: Line) -> bool:
    """Whether a line reaches its goal: a fast answer that is wrong too often does not."""
    return line.goal.reached_by(line.value) and line.answers_plausible
