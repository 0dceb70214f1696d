"""The report of a run: what of the paper was reproduced, on a page that people can look at.

From the rows to the page everything flows one way::

    rows.jsonl -> points ---> rules <- claims -> verdicts -> markdown -> verdicts.md, docs
    published.csv -^   |        ^        ^          |
                       |  fits, factors  causes     +-----------------------+-> page -> index.html
                       +----> charts -> pictures (SVG, PNG), interactive ---+

`points` turns trials into means with intervals, of data of one origin; `fits` measures how they grow and `factors` when
one is smaller than another; `rules` and `theory_rules` judge; `claims` lists what is judged, with the `causes` that are
known where a claim does not come out. `panels` and `error_panels` make what `charts` consist of. A `Chart` says what a
figure shows, `pictures` draws it with matplotlib and `interactive` with Plotly; the page has both, and shows the former
on paper and without JavaScript.
"""

from __future__ import annotations

import json
from pathlib import Path

from banditmips._result_files import replacing
from banditmips.experiments.published import load_published
from banditmips.experiments.report.charts import FIGURE_TITLES, make_chart
from banditmips.experiments.report.docs import update_docs
from banditmips.experiments.report.markdown import verdict_markdown
from banditmips.experiments.report.page import Measured, make_page
from banditmips.experiments.report.pictures import write_pictures
from banditmips.experiments.report.points import aggregate, of_one_origin, published_points, write_csv
from banditmips.experiments.report.verdicts import judge_claims
from banditmips.experiments.rows import RUN_FILE, read_rows

__all__ = ["write_report"]


def write_report(rows_path: Path, out: Path, docs: Path | None = None) -> Path:
    """Write the report of a run; needs the ``experiments`` extra.

    Parameters
    ----------
    rows_path
        The file of rows, whole or of a run that is not finished; ``run.json`` beside it is told if it is there.
    out
        The directory to write to; it is made if it is missing, and what an earlier report left there is replaced.
    docs
        A page of the documentation to paste the verdicts into, between its two marks.

    Returns
    -------
    Path
        ``index.html``, which needs none of the other files: ``verdicts.md``, ``rows.csv``, ``figures/*.svg`` and
        ``figures/*.png``.

    Raises
    ------
    FileNotFoundError
        If there is no file of rows.
    ValueError
        If a line of it is not a row, or the page of the documentation has no marks; the message names it.
    """
    if not rows_path.is_file():
        raise FileNotFoundError(f"{rows_path}: no rows to report on; `banditmips reproduce` writes them")
    run_path = rows_path.parent / RUN_FILE
    run = json.loads(run_path.read_text(encoding="utf-8")) if run_path.is_file() else None
    rows, left_out = of_one_origin(read_rows(rows_path), (run or {}).get("origins", {}))
    measured, published = aggregate(rows), published_points(load_published())
    verdicts = judge_claims(measured, published)
    charts = {figure: make_chart(figure, measured, published) for figure in FIGURE_TITLES}
    pictures = out / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for chart in charts.values():
        if chart is not None:
            write_pictures(chart, pictures)
    write_csv(rows, out / "rows.csv")
    with replacing(out / "verdicts.md") as file:
        file.write(verdict_markdown(verdicts).encode())
    if docs is not None:
        update_docs(docs, verdicts, rows, run)
    index = out / "index.html"
    with replacing(index) as file:
        file.write(make_page(verdicts, charts, Measured(rows, left_out, run)).encode())
    return index
