"""The page: one HTML file that needs nothing else, with pictures where there is no JavaScript or on paper."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from banditmips.experiments.published import SOURCE
from banditmips.experiments.report.chart import Chart, Panel, Table
from banditmips.experiments.report.charts import FIGURE_TITLES
from banditmips.experiments.report.interactive import chart_data, plotly_script
from banditmips.experiments.report.judging import Grade, Line
from banditmips.experiments.report.pictures import panel_svg, swatch_svg
from banditmips.experiments.report.run_tables import rerun_command, rows_table, run_table
from banditmips.experiments.report.styles import NEUTRAL, REFERENCE, SOURCES
from banditmips.experiments.report.verdicts import GRADE_SIGNS, Verdict, summary
from banditmips.experiments.rows import RUN_FILE, Row

__all__ = ["make_page"]

_CLASSES = {
    Grade.REPRODUCED: "reproduced",
    Grade.PARTLY: "partly",
    Grade.NOT: "not",
    Grade.NOT_RUN: "not-run",
}
_VERDICT_HEAD = (
    "claim",
    "the paper",
    "dataset",
    "the authors' logs",
    "measured, the paper's settings",
    "measured, this package's defaults",
    "verdict",
)
_TITLE = "Faster Maximum Inner Product Search in High Dimensions, reproduced"


def make_page(
    verdicts: Sequence[Verdict], charts: Mapping[str, Chart | None], rows: Sequence[Row], run: Mapping[str, Any] | None
) -> str:
    """Return the page.

    Parameters
    ----------
    verdicts
        In the order of the table.
    charts
        For every figure its chart, or None where it has not been run.
    rows, run
        What was measured, and what ``run.json`` tells of the run, if there is one.
    """
    drawn = {key: chart for key, chart in charts.items() if chart is not None}
    data = {key: chart_data(chart) for key, chart in drawn.items()}
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(_TITLE)}</title>
<style>
{_resource("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(_TITLE)}</h1>
{_introduction(verdicts, charts, rows, run)}
</header>
<nav aria-label="Contents">
{_contents()}
</nav>
<main>
<h2 id="verdicts">Verdicts</h2>
{_verdict_section(verdicts)}
<h2 id="figures">Figures</h2>
{_FIGURES_NOTE}
{"".join(_figure(key, charts[key]) for key in charts)}
<h2 id="run">The run</h2>
{_run_section(rows, run)}
</main>
<script type="application/json" id="data">{_json(data)}</script>
<script>{plotly_script()}</script>
<script>
{_resource("page.js")}</script>
</body>
</html>
"""


_PUBLISHED, _, _PUBLISHED_AT = SOURCE.rpartition(", ")
_FIGURES_NOTE = f"""<p>Intervals are 95 % ones of the mean over the trials. Lines are solid where the paper's settings
were used, dashed for this package's defaults, and dotted with open markers for the authors' figures
(<a href="{escape(_PUBLISHED_AT)}">{escape(_PUBLISHED)}</a>). An algorithm has the same colour and marker in every
figure.<noscript> With JavaScript, the pictures become charts that show values and hide curves.</noscript></p>"""


def _resource(name: str) -> str:
    return (resources.files("banditmips.experiments.report") / name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """Return JSON that may stand within a script element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _introduction(
    verdicts: Sequence[Verdict],
    charts: Mapping[str, Chart | None],
    rows: Sequence[Row],
    run: Mapping[str, Any] | None,
) -> str:
    missing = [key for key, chart in charts.items() if chart is None]
    surrogates = sorted({row.dataset for row in rows if row.surrogate})
    parts = [
        "<p>The experiments of the paper (BanditMIPS, "
        '<a href="https://arxiv.org/abs/2212.07551">arXiv:2212.07551</a>), run again beside the figures that its '
        "authors published.</p>",
        f"<p><strong>{len(verdicts)} claims, with the paper's settings: "
        f"{summary(verdict.grade for verdict in verdicts)}.</strong> With this package's defaults: "
        f"{summary(verdict.ours.grade for verdict in verdicts)}.</p>",
    ]
    if run and run.get("quick"):
        parts.append('<p class="notice">A quick run: fewer and smaller points and fewer trials than the paper has.</p>')
    if surrogates:
        parts.append(
            f'<p class="notice">The files of {escape(_and(surrogates))} were not at hand. Synthetic numbers of the '
            "same n, d and range stood in for them, and every figure and verdict made so says “surrogate”.</p>"
        )
    if missing:
        parts.append(f'<p class="notice">Not run yet: {escape(_and(missing))}.</p>')
    return "\n".join(parts)


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _contents() -> str:
    titles = {"verdicts": "Verdicts", **{key: _short_title(key) for key in FIGURE_TITLES}, "run": "The run"}
    return "<ul>" + "".join(f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title in titles.items()) + "</ul>"


def _short_title(key: str) -> str:
    head, _, rest = FIGURE_TITLES[key].partition(": ")
    return head if head.startswith("Figure") else rest.capitalize()


def _verdict_section(verdicts: Sequence[Verdict]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in _VERDICT_HEAD)
    body = "\n".join(map(_verdict_group, verdicts))
    return f"""<p>One rule judges each claim on three sources: the authors' own logs, our measurement with the paper's
settings, and our measurement with this package's defaults. ✓ agrees with the claim, ✗ does not. The verdict is that of
the measurement with the paper's settings. The rule stands under the claim; “slope” is that of a straight line through
log multiplies, 0 if they do not grow and 1 if they grow linearly.</p>
<div class="box"><table class="verdicts">
<thead><tr>{head}</tr></thead>
{body}
</table></div>"""


def _verdict_group(verdict: Verdict) -> str:
    """Return a claim's rows: one for each dataset, with the claim, the paper's figure and the verdict beside them."""
    claim = verdict.claim
    rows = [_dataset_cells(verdict, dataset) for dataset in verdict.datasets or [""]]
    span = f' rowspan="{len(rows)}"' if len(rows) > 1 else ""
    notes = f'<span class="rule">{escape(claim.where)}</span><span class="rule">Rule: {escape(claim.rule)}.</span>'
    grade = f'<span class="verdict {_CLASSES[verdict.grade]}">{GRADE_SIGNS[verdict.grade]}&nbsp;{verdict.grade}</span>'
    grade += "".join(f'<span class="rule">{escape(note)}</span>' for note in verdict.notes())
    first = (
        f'<th scope="rowgroup"{span}>{escape(claim.text)}{notes}</th>'
        f'<td class="paper" data-label="{_VERDICT_HEAD[1]}"{span}>{escape(claim.paper)}</td>'
        f'{rows[0]}<td class="judged"{span}>{grade}</td>'
    )
    others = "".join(f"\n<tr>{cells}</tr>" for cells in rows[1:])
    return f"<tbody><tr>{first}</tr>{others}</tbody>"


def _dataset_cells(verdict: Verdict, dataset: str) -> str:
    surrogate = " (surrogate)" if dataset in verdict.surrogates else ""
    cells = [f'<td class="dataset">{escape(dataset).replace("_", "_<wbr>")}{surrogate}</td>']
    findings = (verdict.published, verdict.paper, verdict.ours)
    missing = ("not published", "not run yet", "not run yet")
    for label, finding, note in zip(("logs", "paper's settings", "defaults"), findings, missing, strict=True):
        line = finding.lines.get(dataset)
        told = f'<span class="soft">{note}</span>' if line is None else _line(line)
        cells.append(f'<td data-label="{escape(label)}">{told}</td>')
    return "".join(cells)


def _line(line: Line) -> str:
    kind, sign, meaning = ("yes", "✓", "agrees") if line.agrees else ("no", "✗", "does not agree")
    return (
        f'<div class="found"><span class="sign {kind}" role="img" aria-label="{meaning}">{sign}</span>'
        f"<span>{escape(line.text)}</span></div>"
    )


def _figure(key: str, chart: Chart | None) -> str:
    if chart is None:
        return f"""<section id="{key}"><h3>{escape(FIGURE_TITLES[key])}</h3>
<p class="not-yet">Not run yet. <code>banditmips reproduce {key}</code> runs it.</p></section>
"""
    panels = "\n".join(_panel(number, panel) for number, panel in enumerate(chart.panels))
    single = " single" if len(chart.panels) == 1 else ""
    tables = "".join(map(_table, chart.tables))
    return f"""<section class="figure" id="{key}">
<h3>{escape(chart.title)}</h3>
<p>{escape(chart.caption)}</p>
{_legend(chart)}
<div class="panels{single}">
{panels}
</div>
{tables}
<p class="soft">The whole figure: <a href="figures/{key}.svg">SVG</a>, <a href="figures/{key}.png">PNG</a></p>
</section>
"""


def _panel(number: int, panel: Panel) -> str:
    picture = base64.b64encode(panel_svg(panel).encode()).decode()
    return f"""<figure class="panel" data-panel="{number}"><figcaption>{escape(panel.title)}</figcaption>
<div class="frame"><img class="still" alt="{escape(_describe(panel))}" src="data:image/svg+xml;base64,{picture}">
<div class="live"></div></div></figure>"""


def _describe(panel: Panel) -> str:
    """Return a panel in words, for those who cannot see it."""
    curves = []
    for series in panel.series:
        ends = series.path[:1] + series.path[1:][-1:]
        if ends and series.source != REFERENCE:
            told = " to ".join(f"{y:.3g} at {x:.3g}" for x, y in ends)
            curves.append(f"{series.name} ({SOURCES[series.source].label}) {told}")
    names = dict.fromkeys(series.name for series in panel.series)
    return f"{panel.y.label} against {panel.x.label}: {'; '.join(curves) or ', '.join(names)}"


def _legend(chart: Chart) -> str:
    names = [
        _check_box("name", entry.name, entry.name, swatch_svg(entry.style, SOURCES[entry.source], marker=entry.markers))
        for entry in chart.legend()
    ]
    sources = [
        _check_box("source", source, SOURCES[source].label, swatch_svg(NEUTRAL, SOURCES[source]))
        for source in chart.sources()
    ]
    buttons = '<button type="button" value="all">all</button><button type="button" value="none">none</button>'
    return f"""<div class="legend" role="group" aria-label="What the charts show">
{"".join(names)}{buttons if len(names) > 2 else ""}<span class="break"></span>
{"".join(sources)}</div>"""


def _check_box(kind: str, value: str, label: str, swatch: str) -> str:
    box = f'<input type="checkbox" checked disabled data-kind="{kind}" value="{escape(value)}">'
    return f"<label>{box}{swatch}<span>{escape(label)}</span></label>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    body = "\n".join(f"<tr>{_cells(row)}</tr>" for row in table.rows)
    kind = ' class="numbers"' if table.numbers else ""
    return f"""<div class="box"><table{kind}><caption><span>{escape(table.caption)}</span></caption>
<thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div>
"""


def _cells(row: Iterable[str]) -> str:
    first, *others = row
    return f'<th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in others)


def _run_section(rows: Sequence[Row], run: Mapping[str, Any] | None) -> str:
    told = _table(run_table(run)) if run else f"<p>There is no {RUN_FILE} beside the rows.</p>"
    return f"""<p>To run it again (an interrupted run goes on where it stopped):</p>
<pre>{escape(rerun_command(run))}</pre>
<p>Every row that was measured is in <a href="rows.csv">rows.csv</a>, the table of verdicts in
<a href="verdicts.md">verdicts.md</a>.</p>
{_table(rows_table(rows))}
{told}"""
