"""How results, traces and indices show themselves: one line in a console, a small table in a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from banditmips._index import BanditMIPS
    from banditmips._result import Round, SearchResult, Trace

__all__ = ["index_html", "index_text", "result_html", "result_text", "round_text", "trace_html", "trace_text"]

_MAX_ROWS = 10
_MAX_BEST = 3


def result_text(result: SearchResult) -> str:
    """Say what was found, by what part of all products, and why the search ended."""
    names = result.indices if result.ids is None else result.ids
    k = result.indices.shape[-1]
    if result.indices.ndim == 1:
        shape, best = f"k={k}", f"best {_name(names[0])} with score {_number(result.scores[0])}"
    else:
        m = len(result.indices)
        shape = f"{m} {'query' if m == 1 else 'queries'}, k={k}"
        shown = [_name(name) for name in names[:_MAX_BEST, 0]]
        best = f"best {', '.join([*shown, *(['...'] if m > len(shown) else [])])}" if m else "nothing asked"
    other_end = [] if result.smallest is None else ["the other end in .smallest"]
    parts = [shape, best, _work(result), *_reasons(result), *other_end]
    return f"<{type(result).__name__}: {'; '.join(parts)}>"


def result_html(result: SearchResult) -> str:
    """Return the atoms of one query, or the best atom of each query of a batch, as a table."""
    names = result.indices if result.ids is None else result.ids
    what = "index" if result.ids is None else "id"
    if result.indices.ndim == 1:
        head = ["rank", what, "score", "between", "exact"]
        rows = [
            [rank + 1, _name(names[rank]), _number(result.scores[rank]), _interval(result, rank), result.exact[rank]]
            for rank in range(min(len(names), _MAX_ROWS))
        ]
        n_rows = len(names)
    else:
        head = ["query", f"best {what}", "score", "between", "multiplies", "stopped"]
        rows = [
            [
                query,
                _name(names[query, 0]),
                _number(result.scores[query, 0]),
                _interval(result, (query, 0)),
                f"{result.n_multiplies[query]:,}",
                result.stop_reason[query],
            ]
            for query in range(min(len(names), _MAX_ROWS))
        ]
        n_rows = len(names)
    return _table(result_text(result), head, rows, n_rows)


def round_text(one: Round) -> str:
    """Say how far the race had come."""
    return f"<Round: {one.n_coordinates:,} coordinates, {one.n_survivors:,} survivors, leader {one.leader}>"


def trace_text(trace: Trace) -> str:
    """Say how long the race was and whom it left."""
    rounds = trace.rounds
    if not rounds:
        return f"<Trace: no rounds{_taken(trace)}; {_first_line(trace.plan)}>"
    n_rounds = "1 round" if len(rounds) == 1 else f"{len(rounds)} rounds"
    return (
        f"<Trace: {n_rounds} to {rounds[-1].n_coordinates:,} coordinates; {trace.n_candidates:,} atoms to "
        f"{rounds[-1].n_survivors:,}{_taken(trace)}; {_first_line(trace.plan)}>"
    )


def _taken(trace: Trace) -> str:
    """What it took, if anybody has looked at the clock."""
    return f"; took {1e6 * trace.seconds:,.0f} us" if trace.seconds > 0.0 else ""


def trace_html(trace: Trace) -> str:
    """Return the rounds as a table."""
    head = ["round", "coordinates", "survivors", "leader"]
    rows = [
        [number, f"{one.n_coordinates:,}", f"{one.n_survivors:,}", one.leader]
        for number, one in enumerate(trace.rounds[:_MAX_ROWS], start=1)
    ]
    return _table(trace_text(trace), head, rows, len(trace.rounds))


def index_text(index: BanditMIPS) -> str:
    """Name the options that are not the default ones, and what the index holds."""
    called = f"BanditMIPS({', '.join(f'{name}={value!r}' for name, value in index.changed_params().items())})"
    facts = _index_facts(index)
    if facts is None:
        return called
    return f"<{called}: {', '.join(f'{what} {value}' for what, value in facts)}>"


def index_html(index: BanditMIPS) -> str:
    """Return what the index holds as a table."""
    facts = _index_facts(index)
    if facts is None:
        return f"<pre>{escape(index_text(index))}, not fitted</pre>"
    return _table(index_text(index), ["", ""], facts, len(facts))


def _index_facts(index: BanditMIPS) -> list[tuple[str, str]] | None:
    """What a fitted index holds, by name; None of one that is not fitted."""
    if not index.is_fitted:
        return None
    facts = [
        ("atoms", f"{index.n_atoms:,} x {index.n_coordinates:,} {index.dtype}"),
        ("layout", index.get_params()["layout"]),
        ("extra memory", _bytes(index.extra_bytes)),
    ]
    if index.n_removed:
        facts.append(("removed", f"{index.n_removed:,}"))
    if index.ids is not None:
        facts.append(("ids", "strings" if index.ids.dtype.kind == "U" else "integers"))
    return facts


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _name(value: Any) -> str:
    return repr(value.item()) if isinstance(value, np.generic) else repr(value)


def _number(value: Any) -> str:
    return f"{float(value):.6g}"


def _interval(result: SearchResult, place: Any) -> str:
    return f"{_number(result.lower[place])} and {_number(result.upper[place])}"


def _work(result: SearchResult) -> str:
    share = result.share
    if share is None:
        return f"{int(np.sum(result.n_multiplies)):,} multiplies"
    mean = 100 * float(np.mean(share)) if np.size(share) else 0.0
    return f"{mean:.3g} % of n*d multiplies"


def _reasons(result: SearchResult) -> list[str]:
    if result.indices.ndim == 1:
        return [str(result.stop_reason)]
    counts = Counter(str(reason) for reason in result.stop_reason).most_common()
    if len(counts) == 1:
        return [counts[0][0]]
    return [", ".join(f"{reason} {count}" for reason, count in counts)] if counts else []


def _bytes(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]], n_rows: int) -> str:
    lines = ["<table>", f"<caption>{escape(caption)}</caption>"]
    if any(head):
        lines.append("<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>")
    shown = 0
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>")
        shown += 1
    if shown < n_rows:
        lines.append(f'<tr><td colspan="{len(head)}">and {n_rows - shown:,} more</td></tr>')
    return "\n".join([*lines, "</table>"])
