"""The report as files: whole and well-formed, whatever part of the rows there is."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from matplotlib.figure import Figure

from banditmips.experiments.report import write_report
from banditmips.experiments.report.chart import Axis, Chart, Mark, Panel, Series
from banditmips.experiments.report.claims import CLAIMS
from banditmips.experiments.report.docs import BEGIN, END, update_docs
from banditmips.experiments.report.pictures import panel_svg, swatch_svg, write_pictures
from banditmips.experiments.report.run_tables import other_work, run_table
from banditmips.experiments.report.styles import SOURCES, style_of
from banditmips.experiments.rows import FIGURES, Row

ROW = Row("figure9", "SymmetricNormal", "drawn", "BanditMIPS", "paper", 9, 1000, 1, 0.1, 0, 0, 0, 9e3, 1.0, 9e3, 1e-3)
VOID = {"meta", "link", "img", "input", "br", "wbr", "hr", "line", "polygon"}


class Page(HTMLParser):
    """Checks that tags nest, and collects what there is."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def unpacked(html, name):
    (text,) = re.findall(rf'<script type="text/plain" id="{name}">(.*?)</script>', html, re.DOTALL)
    return gzip.decompress(base64.b64decode(text)).decode()


def report(rows, directory, run=None):
    """Write a report and return its page, parsed, and its text."""
    directory.mkdir(exist_ok=True)
    path = directory / "rows.jsonl"
    path.write_text("".join(row.to_json() + "\n" for row in rows))
    if run is not None:
        (directory / "run.json").write_text(json.dumps(run))
    html = write_report(path, directory / "out").read_text(encoding="utf-8")
    return Page(html), html


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The report of two points, three trials each, with a run.json."""
    directory = tmp_path_factory.mktemp("small")
    rows = [replace(ROW, d=d, trial=t, seed=t, multiplies=8.0 * d + t) for d in (1000, 2000) for t in range(3)]
    run = {"quick": False, "machine": {"cores": 2}, "versions": {"numpy": "2.0"}, "figures": ["figure9"]}
    return *report(rows, directory, run), directory


def test_what_is_written(small):
    _, _, directory = small
    written = sorted(str(path.relative_to(directory / "out")) for path in (directory / "out").rglob("*.*"))
    assert written == ["figures/figure9.png", "figures/figure9.svg", "index.html", "rows.csv", "verdicts.md"]
    assert (directory / "out/figures/figure9.png").read_bytes().startswith(b"\x89PNG")
    ET.parse(directory / "out/figures/figure9.svg")
    assert (directory / "out/rows.csv").read_text().count("\n") == 7
    assert "| SymmetricNormal | ✓ slope " in (directory / "out/verdicts.md").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_needs_nothing_else(small):
    page, html, _ = small
    assert html.startswith("<!DOCTYPE html>")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert all(attributes.get("alt") for attributes in page.all("img"))
    assert all(attributes["src"].startswith("data:") for attributes in page.all("img"))
    assert not [attributes for attributes in page.all("script") if "src" in attributes]
    assert {attributes["href"] for attributes in page.all("link")} == {"data:,"}
    # Links to save a picture get their target from a script.
    targets = [attributes["href"] for attributes in page.all("a") if attributes.get("class") != "save"]
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    assert {"viewport"} <= {attributes.get("name") for attributes in page.all("meta")}
    assert len(page.all("th")) == sum("scope" in attributes for attributes in page.all("th"))
    assert unpacked(html, "plotly").count("* plotly.js v") == 1
    # A page that travels alone has no link that it leaves behind.
    assert all(target.startswith(("#", "https://")) for target in targets)


def test_data_for_the_charts_is_strict_json(small):
    _, html, _ = small
    data = json.loads(unpacked(html, "data"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    panel = data["figure9"][0]
    measured = [trace for trace in panel["traces"] if trace["meta"]["source"] == "paper"]
    assert measured[0]["y"] == [8001.0, 16_001.0]
    assert measured[0]["error_y"]["array"][0] == pytest.approx(4.303 / 3**0.5, abs=1e-3)


def test_figures_that_are_missing_say_so(small):
    page, _, _ = small
    text = "".join(page.text)
    assert text.count("Not run yet. banditmips reproduce") == len(FIGURES) - 1
    assert "banditmips reproduce figure3 runs it" in text
    assert "Not run yet: figure1, figure2, figure3" in text


def test_the_run_is_told(small):
    page, _, _ = small
    text = " ".join(page.text)
    assert "machine: cores" in text
    assert "banditmips reproduce all --out DIR" in text
    assert "A quick run" not in text


@pytest.mark.parametrize(
    ("loads", "told"), [([[0.3, 9, 9]], ""), ([[0.1, 0, 0], None, [6.03, 1, 1]], "a load of 6.0 on 2 cores"), ([], "")]
)
def test_other_work_on_the_machine_is_told(loads, told):
    text = other_work({"machine": {"cores": 2}, "runs": [{"load_average": load} for load in loads]})
    assert told in text
    assert bool(text) == bool(told)
    assert other_work({"runs": [{"load_average": load, "rows_written": 0} for load in loads]}) == ""


def test_verdicts_are_pasted_between_the_marks_of_a_page(small, tmp_path):
    _, _, directory = small
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nyesterday\n{END}\nafter\n")
    for _ in range(2):
        write_report(directory / "rows.jsonl", directory / "out", page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n\nVersion ")
    assert text.endswith(f"\n{END}\nafter\n")
    assert text.count("The paper, appendix G, figure 9: linear. Rule: slope of log multiplies") == 1
    assert "yesterday" not in text
    assert f"6 rows, {len(CLAIMS)} claims, 1 reproduced" in text
    assert "Nothing was run of figure1, figure2, figure3, figure4, figure5, figure6, figure7, figure8, beyond" in text
    page.write_text(f"{END}\n{BEGIN}\n")
    with pytest.raises(ValueError, match=r"page\.md must have a line '<!-- verdicts: begin -->'"):
        write_report(directory / "rows.jsonl", directory / "out", page)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([], "Version 0.3, of a full run: "),
        ([{"finished": "2026-01-02T03:04"}], "Version 0.3, of a full run on 2026-01-02: "),
        (
            [{"version": "0.2", "started": "2026-01-01", "finished": None}],
            "Version 0.2, of a full run that is not finished on 2026-01-01: ",
        ),
        # One that was stopped, one that took it up, and one that wrote the report anew.
        (
            [
                {"version": "0.1", "finished": None},
                {"version": "0.2", "rows_written": 3, "finished": "2026-01-02"},
                {"version": "0.3", "rows_written": 0, "finished": "2026-01-03"},
            ],
            "Version 0.1 and 0.2, of a full run on 2026-01-03: ",
        ),
    ],
)
def test_pasted_verdicts_tell_the_versions_of_their_rows_and_whether_the_run_is_over(tmp_path, runs, told):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    update_docs(page, [], [], {"quick": False, "versions": {"banditmips": "0.3"}, "runs": runs})
    assert told in page.read_text(encoding="utf-8")


def test_no_rows_at_all(tmp_path):
    page, _ = report([], tmp_path, {"quick": True})
    text = " ".join(page.text)
    assert f"{len(CLAIMS)} not run" in text
    assert "A quick run" in text
    assert page.all("figure") == []


def test_one_row_and_no_run_file(tmp_path):
    page, _ = report([ROW], tmp_path)
    text = " ".join(page.text)
    assert "There is no run.json beside the rows." in text
    assert f"{len(CLAIMS)} not run" in text  # one value of d has no slope
    assert len(page.all("figure")) == 2  # multiplies, and time


def test_names_are_escaped(tmp_path):
    nasty = "<script>alert('&')</script>"
    page, html = report([replace(ROW, dataset=nasty, algorithm=nasty, parameters={nasty: nasty})], tmp_path)
    assert nasty not in html
    assert len(page.all("script")) == 3
    assert nasty in "".join(page.text)


def test_a_report_replaces_an_older_one(tmp_path):
    report([ROW], tmp_path)
    page, _ = report([replace(ROW, multiplies=1.0)], tmp_path)
    assert len(page.all("figure")) == 2
    assert "1.0" in (tmp_path / "out/rows.csv").read_text()


@pytest.mark.parametrize("name", ["rows.csv", "verdicts.md", "index.html", "figures/figure9.svg"])
def test_a_fifo_is_not_written_to(tmp_path, name):
    """Opening one would wait for somebody at its other end."""
    fifo = tmp_path / "out" / name
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    with pytest.raises(FileExistsError, match="is a FIFO"):
        report([ROW], tmp_path)
    assert fifo.is_fifo()


def test_data_from_elsewhere_are_left_out_and_told(tmp_path):
    surrogate = [replace(ROW, dataset="MovieLens", figure="figure1", origin="surrogate", d=d) for d in (1000, 2000)]
    real = [replace(row, origin="ml-1m/ratings.dat, 0123456789ab", multiplies=77.0) for row in surrogate]
    page, html = report([*surrogate, *real], tmp_path, {"origins": {"MovieLens": real[0].origin}})
    text = " ".join(" ".join(page.text).split())
    assert "Rows of data from elsewhere than now are left out: 2 of MovieLens (a surrogate)." in text
    assert "Real data: MovieLens (ml-1m/ratings.dat, 0123456789ab)." in text
    assert "MovieLens (real), n" in text
    assert "surrogate data" not in text
    panels = json.loads(unpacked(html, "data"))["figure1"]
    drawn = [
        value
        for panel in panels
        for trace in panel["traces"]
        if trace["meta"]["source"] == "paper"
        for value in trace["y"]
    ]
    assert drawn == [77.0, 77.0, 1e-3, 1e-3]  # multiplies, and time
    assert (tmp_path / "out/rows.csv").read_text().count("surrogate") == 0


def test_pictures_in_the_page_are_whole(small):
    page, _, _ = small
    for attributes in page.all("img"):
        head, _, picture = attributes["src"].partition(",")
        assert head == "data:image/svg+xml"
        ET.fromstring(unquote(picture))


def test_a_missing_or_broken_file_of_rows_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl: no rows"):
        write_report(tmp_path / "none.jsonl", tmp_path / "out")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: not a row"):
        write_report(tmp_path / "rows.jsonl", tmp_path / "out")


@pytest.mark.parametrize("module", ["plotly.offline", "matplotlib.figure"])
def test_missing_packages_name_the_extra(tmp_path, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"report of an experiment needs .*'banditmips\[experiments\]'"):
        report([ROW], tmp_path)


def make_chart(n_panels=3):
    marks = tuple(Mark(10.0**power, 5.0, 4.0, 6.0, "") for power in range(3))
    series = [
        Series(name, style_of(name), source, marks, tuple((mark.x, mark.y) for mark in marks))
        for name, source in (("BanditMIPS", "paper"), ("BanditMIPS", "published"), ("NEQ-MIPS", "paper"))
    ]
    panel = Panel("A panel", Axis("d", log=True), Axis("accuracy", log=False, limits=(0, 10)), tuple(series))
    return Chart("figure1", "A rather long title " * 8, "", (panel,) * n_panels)


def test_pictures_are_the_same_every_time(tmp_path):
    panel = make_chart().panels[0]
    assert panel_svg(panel) == panel_svg(panel)
    text = panel_svg(panel)
    ET.fromstring(text)
    assert ">accuracy</text>" in text


def test_pictures_are_short_and_keep_the_numbers_of_their_axes():
    marks = tuple(Mark(x, 5.0, 4.0, 6.0, "") for x in (0.0001, 0.001, 0.01, 0.01))
    series = Series("BanditMIPS", style_of("BanditMIPS"), "paper", marks, ())
    axes = Axis("delta (epsilon is 0.025)", log=True, unit=""), Axis("accuracy", log=False, limits=(0, 10))
    text = panel_svg(Panel("A panel", *axes, (series,)))
    picture = ET.fromstring(text)
    assert {"0.0001", "0.001", "0.01", "delta (epsilon is 0.025)"} <= set(
        filter(None, (each.text for each in picture.iter()))
    )
    places = re.findall(r'<use href="#(m\d+)" x="([^"]*)" y="([^"]*)"/>', text)
    assert len(places) == len(set(places))  # two marks at one place are drawn once
    drawn = [path for path in re.findall(r' d="([^"]*)"', text) if path.count("M") == len(marks)]
    assert len(drawn) == 1  # the bars of the marks
    styles = re.findall(r' style="([^"]*)"', text)
    assert len(styles) == len(set(styles))
    assert set(re.findall(r'class="(\w+)"', text)) == set(re.findall(r"\.(\w+)\{", text))


@pytest.mark.parametrize("n_panels", [1, 3])
def test_whole_figures_have_titles_and_legends(tmp_path, n_panels):
    write_pictures(make_chart(n_panels), tmp_path)
    text = (tmp_path / "figure1.svg").read_text(encoding="utf-8")
    assert text.count(">A panel</text>") == n_panels
    for label in ("BanditMIPS", "NEQ-MIPS", SOURCES["paper"].label, SOURCES["published"].label):
        assert text.count(f">{label}</text>") == 1
    assert SOURCES["ours"].label not in text


@pytest.mark.parametrize("n_panels", [1, 4])
def test_legends_and_labels_fit_the_width_of_a_figure(tmp_path, monkeypatch, n_panels):
    marks = (Mark(1.0, 5e-5, 4e-5, 6e-5, ""),)
    names = ("BanditMIPS", "BanditMIPS-alpha", "Bucket_AE, exact norms", "BoundedME, true range", "NAPG-MIPS")
    series = tuple(
        Series(name, style_of(name), source, marks, ()) for name in names for source in SOURCES if source != "reference"
    )
    failures = Axis("share of failures", log=True, unit="", limits=(1e-5, 1.0))
    panel = Panel("A panel", Axis("d", log=True), failures, series)
    drawn = []
    save = Figure.savefig

    def remember(figure, *arguments, **options):
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", remember)
    write_pictures(Chart("figure1", "A title", "", (panel,) * n_panels), tmp_path)
    figure = drawn[-1]
    room = figure.bbox
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert room.x0 <= box.x0
        assert box.x1 <= room.x1
        assert room.y0 <= box.y0 + 1.0
    for axes in figure.axes:
        assert axes.yaxis.label.get_window_extent().x0 >= room.x0


def test_swatches_differ_as_the_curves_do():
    style = style_of("BanditMIPS")
    swatches = [swatch_svg(style, look) for look in SOURCES.values()]
    assert len(set(swatches)) == len(SOURCES)
    assert "polygon" not in swatch_svg(style, SOURCES["reference"], marker=False)
    ET.fromstring(swatches[0])


def test_the_run_table_holds_everything():
    run = {
        "quick": True,
        "settings": {"sizes": {"figure1": {"d": {"A": [1, 2], "B": []}, "n": 5}}},
        "figures": ["figure1", "figure2"],
        "runs": [{"jobs": 2, "load": [1.5, 2]}, {"jobs": 1, "load": None}],
        "system": "Linux",
    }
    assert run_table(run).rows == (
        ("quick", "true"),
        ("settings: sizes: figure1", "d (A 1, 2; B none); n 5"),
        ("figures", "figure1, figure2"),
        ("runs: 1", "jobs 2; load 1.5, 2"),
        ("runs: 2", "jobs 1; load null"),
        ("system", "Linux"),
    )
