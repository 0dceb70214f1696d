"""The page: one HTML file that needs nothing else, with pictures where there is no JavaScript or on paper."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from banditmips.experiments.origins import where_from
from banditmips.experiments.published import SOURCE
from banditmips.experiments.report.causes import Cause
from banditmips.experiments.report.chart import Chart, Panel, Table
from banditmips.experiments.report.charts import FIGURE_TITLES
from banditmips.experiments.report.interactive import chart_data, plotly_script
from banditmips.experiments.report.judging import Agreement, Grade, Line
from banditmips.experiments.report.pictures import panel_svg, swatch_svg
from banditmips.experiments.report.points import PUBLISHED
from banditmips.experiments.report.run_tables import other_work, rerun_command, rows_table, run_table
from banditmips.experiments.report.styles import NEUTRAL, REFERENCE, SOURCES
from banditmips.experiments.report.verdicts import GRADE_SIGNS, HEADINGS, SIGNS, Verdict, summary
from banditmips.experiments.rows import DRAWN, PAPER, RUN_FILE, SURROGATE, VARIANCE, Row

__all__ = ["Measured", "make_page"]

_CLASSES = {
    Grade.REPRODUCED: "reproduced",
    Grade.PARTLY: "partly",
    Grade.NOT: "not",
    Grade.NOT_RUN: "not-run",
}
_TITLE = "Faster Maximum Inner Product Search in High Dimensions, reproduced"


@dataclass(frozen=True)
class Measured:
    """What a page tells of the run itself.

    Attributes
    ----------
    rows
        What was measured.
    left_out
        Rows of data from elsewhere than where they come from now.
    run
        What ``run.json`` tells, if there is one.
    """

    rows: Sequence[Row]
    left_out: Sequence[Row] = ()
    run: Mapping[str, Any] | None = None


def make_page(verdicts: Sequence[Verdict], charts: Mapping[str, Chart | None], measured: Measured) -> str:
    """Return the page.

    Parameters
    ----------
    verdicts
        In the order of the table.
    charts
        For every figure its chart, or None where it has not been run.
    measured
        The rows, and the run.
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
{_introduction(verdicts, charts, measured)}
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
{_run_section(measured)}
</main>
<script type="text/plain" id="data">{_packed(json.dumps(data, allow_nan=False, separators=(",", ":")))}</script>
<script type="text/plain" id="plotly">{_packed(plotly_script())}</script>
<script>
{_resource("page.js")}</script>
</body>
</html>
"""


_PUBLISHED, _, _PUBLISHED_AT = SOURCE.rpartition(", ")
_FIGURES_NOTE = f"""<p>Intervals are 95 % ones of the mean over the trials. Lines are solid where the paper's settings
were used, with long dashes where its sigma is read as a variance, with short ones for this package's defaults without
an index, dash-dotted after <code>fit</code>, and dotted with open markers for the authors' figures
(<a href="{escape(_PUBLISHED_AT)}">{escape(_PUBLISHED)}</a>). An algorithm has the same colour and marker in every
figure. Times are those of this machine, with other processes of the run beside them (“the clock beside the multiplies”
has nothing beside it); the defaults are asked for few multiplies where multiplies are shown, and for little time where
times are. A fitted index may know the answer from every atom's mean and norm, without a multiply: such a search counts
as n, since it looks at every atom.<noscript> With JavaScript, the pictures become charts that show values and hide
curves.</noscript></p>"""


def _resource(name: str) -> str:
    return (resources.files("banditmips.experiments.report") / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Return a text compressed, in letters: a third of its size, which browsers unpack."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _introduction(verdicts: Sequence[Verdict], charts: Mapping[str, Chart | None], measured: Measured) -> str:
    missing = [key for key, chart in charts.items() if chart is None]
    surrogates = sorted({row.dataset for row in measured.rows if row.surrogate})
    real = sorted({(row.dataset, row.origin) for row in measured.rows if row.origin not in (DRAWN, SURROGATE)})
    others = "; ".join(
        f"{heading}: {summary(verdict.findings[source].grade for verdict in verdicts)}"
        for source, heading in HEADINGS.items()
        if source != PUBLISHED
    )
    parts = [
        "<p>The experiments of the paper (BanditMIPS, "
        '<a href="https://arxiv.org/abs/2212.07551">arXiv:2212.07551</a>), run again beside the figures that its '
        "authors published.</p>",
        f"<p><strong>{len(verdicts)} claims: {summary(verdict.grade for verdict in verdicts)}.</strong> "
        f'<span class="soft">By each source alone: {escape(others)}.</span></p>',
    ]
    if measured.run and measured.run.get("quick"):
        parts.append('<p class="notice">A quick run: fewer and smaller points and fewer trials than the paper has.</p>')
    if surrogates:
        parts.append(
            f'<p class="notice">The files of {escape(_and(surrogates))} were not at hand. Synthetic numbers of the '
            "same n, d and range stood in for them, and every figure and verdict made so says “surrogate”. Those of "
            "Netflix and MovieLens have one law and the same seeds: at the same n and d they are the same numbers.</p>"
        )
    if real:
        told = _and([f"{dataset} ({origin})" for dataset, origin in real])
        parts.append(f'<p class="notice">Real data: {escape(told)}.</p>')
    if other := other_work(measured.run):
        parts.append(f'<p class="notice">{escape(other)}</p>')
    if measured.left_out:
        parts.append(f'<p class="notice">{escape(_left_out(measured.left_out))}</p>')
    if missing:
        parts.append(f'<p class="notice">Not run yet: {escape(_and(missing))}.</p>')
    return "\n".join(parts)


def _left_out(rows: Sequence[Row]) -> str:
    counts = Counter((row.dataset, row.origin) for row in rows)
    told = _and([f"{count:,} of {dataset} ({where_from(origin)})" for (dataset, origin), count in counts.items()])
    return f"Rows of data from elsewhere than now are left out: {told}."


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _contents() -> str:
    titles = {"verdicts": "Verdicts", **{key: _short_title(key) for key in FIGURE_TITLES}, "run": "The run"}
    return "<ul>" + "".join(f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title in titles.items()) + "</ul>"


def _short_title(key: str) -> str:
    if key == "run":
        return "The run"
    head, _, rest = FIGURE_TITLES[key].partition(": ")
    return head if head.startswith("Figure") else rest.capitalize()


def _verdict_section(verdicts: Sequence[Verdict]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("dataset", *HEADINGS.values()))
    body = "\n".join(map(_verdict_group, verdicts))
    return f"""<p>One rule judges each claim on five sources: the authors' own logs, our measurement with the paper's
settings, the same with its sigma read as a variance (25 for ratings is then a sigma of 5; a sigma of 1 is the same
number), and this package's defaults without an index and after <code>fit</code>. ✓ agrees with the claim, ≈ has the
right sign but not by the rule's margin or not beyond the spread of the trials, ✗ does not agree. The verdict is that of
the measurement with the paper's settings, unless the rule says otherwise. Factors have their 95 % interval over the
trials in brackets. “Slope” is that of a straight line through log multiplies, 0 if they do not grow and 1 if they grow
linearly. Tables 1 and 2 of the paper define terms and notes, and claim nothing that could be measured.</p>
<div class="box"><table class="verdicts">
<thead><tr>{head}</tr></thead>
{body}
</table></div>"""


def _verdict_group(verdict: Verdict) -> str:
    """Return a claim with its verdict and rule, a row for each dataset, and why where it did not come out."""
    claim = verdict.claim
    width = len(HEADINGS) + 1
    notes = "".join(f'<span class="rule">{escape(note)}</span>' for note in verdict.notes())
    rows = [
        f'<tr class="claim"><th scope="rowgroup" colspan="{width}">{_grade(verdict.grade)} {escape(claim.text)}'
        f'<span class="rule">{escape(claim.said)}</span>'
        f'<span class="rule">Rule: {escape(claim.rule)}.</span>{notes}</th></tr>',
        *(f"<tr>{_dataset_cells(verdict, dataset)}</tr>" for dataset in verdict.datasets),
    ]
    if verdict.datasets:
        grades = "".join(
            f'<td data-label="{escape(heading)}">{_grade(verdict.findings[source].grade)}</td>'
            for source, heading in HEADINGS.items()
        )
        rows.append(f'<tr class="grades"><th scope="row" class="dataset">by each source</th>{grades}</tr>')
    reasons = _reasons(verdict)
    if reasons:
        rows.append(f'<tr class="why"><td colspan="{width}"><strong>Why</strong><ul>{reasons}</ul></td></tr>')
    return "<tbody>" + "\n".join(rows) + "</tbody>"


def _grade(grade: Grade) -> str:
    return f'<span class="verdict {_CLASSES[grade]}">{GRADE_SIGNS[grade]}&nbsp;{grade}</span>'


def _reasons(verdict: Verdict) -> str:
    """Return the known causes as items of a list, each with its datasets and where it is measured."""
    datasets: dict[Cause, list[str]] = {}
    for dataset in verdict.datasets:
        for cause in verdict.causes(dataset):
            datasets.setdefault(cause, []).append(dataset)
    items = []
    for cause, names in datasets.items():
        shown = f' <a href="#{cause.figure}">{escape(_short_title(cause.figure))}</a>' if cause.figure else ""
        told = f" ({escape(cause.document)})" if cause.document else ""
        items.append(f"<li>{escape(_and(names))}: {escape(cause.text)}{shown}{told}</li>")
    return "".join(items)


def _dataset_cells(verdict: Verdict, dataset: str) -> str:
    surrogate = " (surrogate)" if dataset in verdict.surrogates else ""
    beside = " (real, not in the paper; does not count)" if dataset in verdict.beside else ""
    name = escape(dataset).replace("_", "_<wbr>")
    cells = [f'<th scope="row" class="dataset">{name}{surrogate}{beside}</th>']
    paper = verdict.findings[PAPER].lines.get(dataset)
    for source, heading in HEADINGS.items():
        line = verdict.findings[source].lines.get(dataset)
        if line is None:
            told = '<span class="soft">-</span>'
        elif source == VARIANCE and line == paper:
            told = f'<span class="soft">{SIGNS[line.agreement]} the same</span>'
        else:
            told = _line(line)
        cells.append(f'<td data-label="{escape(heading)}">{told}</td>')
    return "".join(cells)


_LINE_CLASSES = {Agreement.YES: "yes", Agreement.BARELY: "barely", Agreement.NO: "no"}


def _line(line: Line) -> str:
    sign = f'<span class="sign {_LINE_CLASSES[line.agreement]}" role="img" aria-label="{line.agreement}">'
    return f'<div class="found">{sign}{SIGNS[line.agreement]}</span><span>{escape(line.text)}</span></div>'


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
</section>
"""


def _panel(number: int, panel: Panel) -> str:
    # Only these need another spelling in an address within double quotes; letters for all of it would be a third more.
    picture = panel_svg(panel).replace('"', "'").replace("%", "%25").replace("#", "%23").replace("&", "%26")
    return f"""<figure class="panel" data-panel="{number}"><figcaption>{escape(panel.title)}
<a class="save">SVG</a></figcaption>
<div class="frame"><img class="still" alt="{escape(_describe(panel))}" src="data:image/svg+xml,{picture}">
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


def _run_section(measured: Measured) -> str:
    run = measured.run
    told = _table(run_table(run)) if run else f"<p>There is no {RUN_FILE} beside the rows.</p>"
    return f"""<p>To run it again (an interrupted run goes on where it stopped):</p>
<pre>{escape(rerun_command(run))}</pre>
<p>Beside this page, where it was written, are <code>rows.csv</code> (every row that was measured),
<code>verdicts.md</code> (the verdicts) and <code>figures/</code> (whole figures as SVG and PNG). The page
itself needs none of them.</p>
{_table(rows_table(measured.rows))}
{told}"""
