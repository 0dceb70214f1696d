"""What each figure shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banditmips.experiments.beyond_warm_start import WARM
from banditmips.experiments.published import load_published
from banditmips.experiments.report.charts import FIGURE_TITLES, make_chart
from banditmips.experiments.report.judging import Grade
from banditmips.experiments.report.points import aggregate, published_points
from banditmips.experiments.report.styles import BASELINES, SOURCES, style_of
from banditmips.experiments.report.verdicts import judge_claims
from banditmips.experiments.rows import FIGURES, Row

ROW = Row("figure1", "NORMAL_CUSTOM", "drawn", "BanditMIPS", "paper", 100, 1000, 1, 0.1, 0.0, 0, 0, 9e3, 1.0, 1e5, 1e-3)


@pytest.fixture(scope="module")
def published():
    return published_points(load_published())


@pytest.fixture(scope="module")
def charts(made_up_rows, published):
    points = aggregate(made_up_rows)
    return {figure: make_chart(figure, points, published) for figure in FIGURE_TITLES}


def chart_of(*rows, published=()):
    return make_chart(rows[0].figure, aggregate(rows), published)


def curves(panel):
    return {(series.name, series.source): series for series in panel.series}


def test_there_is_a_chart_for_every_figure(charts):
    assert list(charts) == list(FIGURES)
    assert all(chart.panels for chart in charts.values())


def test_titles_say_surrogate(charts):
    for chart in charts.values():
        wanted = chart.key not in ("figure8", "figure9", "beyond_kinds")
        assert ("surrogate" in chart.title) is wanted
        assert any("(surrogate)" in panel.title for panel in chart.panels) is wanted
    assert charts["figure2"].title == "Figure 2: all algorithms against d (surrogate data for MovieLens, Netflix)"
    assert charts["figure2"].panels[0].title == "NORMAL_CUSTOM, n\u00a0=\u00a0100"


def test_figures_that_were_not_run_have_no_chart(published):
    assert make_chart("figure3", aggregate([ROW]), published) is None


def test_datasets_that_were_not_run_show_what_was_published(published):
    chart = chart_of(ROW, published=published)
    titles = [panel.title for panel in chart.panels]
    assert titles[2:] == [
        f"{name}: not run yet, n\u00a0=\u00a0100" for name in ("CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens")
    ]
    assert {series.source for series in chart.panels[2].series} == {"published", "reference"}


def test_sources_are_separate_curves(charts):
    panel = charts["figure1"].panels[0]
    assert set(curves(panel)) == {
        ("BanditMIPS", "paper"),
        ("BanditMIPS", "ours"),
        ("BanditMIPS, fitted", "fitted"),
        ("BanditMIPS", "published"),
        ("Naive", "reference"),
    }
    assert charts["figure1"].sources() == ["paper", "ours", "fitted", "published"]


def test_times_are_those_of_a_search_for_little_time(charts):
    multiplies, time = charts["beyond_clock"].panels[:2]
    assert time.title == multiplies.title + ": time"
    assert time.y.label == "seconds per query"
    assert [mark.y for mark in curves(time)["BanditMIPS, fitted", "fitted"].marks] == pytest.approx([1e-6, 1e-5, 1e-4])
    paper = [mark.y for mark in curves(time)["BanditMIPS", "paper"].marks]
    assert paper == pytest.approx([9e-6] * 3, rel=0.2)
    blas = curves(time)["full product (BLAS)", "reference"]
    assert [mark.y for mark in blas.marks] == pytest.approx([5e-6, 5e-5, 5e-4])
    assert "when asked for little time" in curves(multiplies)["BanditMIPS", "ours"].marks[0].text


def test_a_song_is_counted_as_five_queries(charts):
    multiplies, time = charts["figure8"].panels
    assert multiplies.y.label == "multiplies per song (five queries)"
    assert time.y.label == "seconds per song (five queries)"


def test_one_point_alone_has_room_around_it():
    panel = chart_of(ROW).panels[0]
    (x_low, x_high), (y_low, y_high) = panel.limits()
    assert x_low <= 500
    assert x_high >= 2000
    assert 0 < y_low < 9e3
    assert y_high > 1e5


def test_lines_go_from_left_to_right_whatever_the_order_of_rows():
    panel = chart_of(*(replace(ROW, d=d) for d in (5000, 1000, 3000))).panels[0]
    assert [x for x, _ in curves(panel)["BanditMIPS", "paper"].path] == [1000, 3000, 5000]


def test_naive_line_is_that_of_the_measured_n(published):
    rows = [replace(ROW, figure="figure4", dataset="Sift-1M", n=128, d=d, naive=128.0 * d) for d in (1000, 2000)]
    panel = chart_of(*rows, published=published).panels[0]
    assert panel.title == "Sift-1M, n\u00a0=\u00a0128 (published: 10)"
    assert curves(panel)["Naive", "reference"].path == ((1000, 128_000.0), (2000, 256_000.0))


def test_trade_offs_join_the_best_points():
    settings = [(1000.0, 1.0), (500.0, 0.9), (400.0, 0.95), (100.0, 0.5), (90.0, 0.2)]
    rows = [
        replace(ROW, figure="figure3", multiplies=count, accuracy=accuracy, delta=0.1 * number)
        for number, (count, accuracy) in enumerate(settings)
    ]
    series = curves(chart_of(*rows).panels[0])["BanditMIPS", "paper"]
    assert len(series.marks) == 5
    errors = [error for _, error in series.path]
    assert errors[1:] == pytest.approx([0.05, 0.5, 0.8])
    assert errors[0] < 0.05  # none at all, in the band above
    assert [speed_up for speed_up, _ in series.path] == sorted(1e5 / count for count, _ in settings if count != 500.0)


def test_points_without_errors_stand_apart_in_a_band():
    others = ("LSH-MIPS", "NEQ-MIPS", "PCA-MIPS")
    rows = [replace(ROW, figure="figure3", algorithm=name, delta=None) for name in others]
    rows.append(replace(rows[0], accuracy=0.98, parameters={"n_tables": 2}))
    (panel,) = chart_of(*rows).panels
    heights = {series.name: [mark.y for mark in series.marks] for series in panel.series}
    (first, second), others = heights["LSH-MIPS"], [heights["NEQ-MIPS"][0], heights["PCA-MIPS"][0]]
    assert second == pytest.approx(0.02)
    assert len({first, *others}) == 3
    (low, high) = panel.y.limits
    assert low > 1 > second > max(first, *others) > min(first, *others) > high
    labels = {label: place for place, label in panel.y.ticks}
    assert min(first, *others) <= labels["none"] <= max(first, *others)
    assert "0.01" not in labels


def test_trade_offs_of_another_size_than_the_published_say_so(published):
    row = replace(ROW, figure="figure3", n=400, d=4000)
    assert chart_of(row, published=published).panels[0].title == (
        "NORMAL_CUSTOM, n\u00a0=\u00a0400 (published: 1,000), d\u00a0=\u00a04,000 (published: 10,000)"
    )


def test_buckets_against_n_and_d(charts):
    titles = [panel.title.split(",")[0] for panel in charts["figure7"].panels]
    assert titles[::2] == [
        "CORRELATED_NORMAL_CUSTOM against n",
        "CORRELATED_NORMAL_CUSTOM against d",
        "Netflix (surrogate) against n",
        "Netflix (surrogate) against d",
    ]
    names = [{series.name for series in panel.series} for panel in charts["figure7"].panels[::2]]
    bins = {"Bucket_AE", "Bucket_AE, exact norms"}
    assert names[0] == bins | {"BanditMIPS", "Naive"}
    assert names[1] == bins | {"Naive"}
    mark = curves(charts["figure7"].panels[2])["Bucket_AE", "paper"].marks[0]
    assert "64,000 multiplies before the first query" in mark.text


def test_weights_and_warm_starts(charts):
    counts, variances = charts["beyond_sampling"].panels[:2]
    assert [mark.x for mark in curves(counts)["weighted", "paper"].marks] == [0.0, 0.5, 1.0]
    assert [mark.y for mark in curves(variances)["weighted", "paper"].marks] == pytest.approx([1.5, 1.0, 1.5])
    assert curves(variances)["optimal", "paper"].path == ((0.0, 1.0), (1.0, 1.0))
    time = charts["beyond_warm_start"].panels[0]
    assert [mark.x for mark in curves(time)["BanditMIPS, warm start", "paper"].marks] == [1, 10, 100]
    assert time.y.label == "seconds per query, fit shared out"


def test_bounds_are_told_apart(charts):
    names = {series.name for series in charts["beyond_bounds"].panels[0].series}
    assert names == {
        "hoeffding, uniform",
        "hoeffding_serfling, uniform",
        "bernstein, uniform",
        "paired, uniform",
        "paired, auto",
        "Naive",
    }
    assert len({style_of(name).marker for name in names}) == len(names)


def test_the_clock_stands_beside_the_multiplies(charts):
    multiplies, seconds = charts["beyond_clock"].panels[:2]
    assert (multiplies.y.label, seconds.y.label) == ("multiplies per query", "seconds per query")
    blas = curves(seconds)["full product (BLAS)", "reference"]
    assert blas.path == ((1000, 5e-6), (10_000, 5e-5), (100_000, 5e-4))


def test_failures_have_binomial_intervals_and_a_floor():
    rows = [
        replace(ROW, figure="beyond_failures", delta=delta, extra={"failures": failures, "trials": 100})
        for delta, failures in ((0.01, 0), (0.1, 5))
    ]
    panel = chart_of(*rows).panels[0]
    none, some = curves(panel)["BanditMIPS", "paper"].marks
    assert none.y == none.low == 0.01 / 2
    assert none.high == pytest.approx(0.036, abs=1e-3)
    assert "0 failures in 100 searches" in none.text
    assert (some.y, round(some.low, 3), round(some.high, 3)) == (0.05, 0.016, 0.113)
    diagonal = curves(panel)["as many failures as delta allows", "reference"]
    assert diagonal.path == ((0.01, 0.01), (0.1, 0.1))


def test_theorem_1_stands_beside_the_multiplies(charts):
    panel = charts["beyond_theorem1"].panels[0]
    bound = curves(panel)["bound of Theorem 1", "reference"]
    assert {y for _, y in bound.path} == {160_000.0}


def test_every_number_drawn_is_finite_and_in_order(charts):
    for chart in charts.values():
        for panel in chart.panels:
            (x_low, x_high), y_limits = panel.limits()
            y_low, y_high = sorted(y_limits)  # small errors are on top
            for series in panel.series:
                for mark in series.marks:
                    assert x_low <= mark.x <= x_high
                    assert y_low <= mark.low <= mark.y <= mark.high <= y_high
                    assert not panel.y.log or mark.low > 0


def test_points_tell_their_setting():
    row = replace(ROW, algorithm="LSH-MIPS", delta=None, parameters={"n_tables": 3, "c": 0.5})
    panel = chart_of(row, replace(row, trial=1, multiplies=8e3)).panels[0]
    text = curves(panel)["LSH-MIPS", "paper"].marks[0].text
    assert text.startswith("<b>LSH-MIPS</b>, measured, the paper's settings<br>n = 100, d = 1,000, k = 1<br>8,500 mult")
    assert "2 trials" in text
    assert text.endswith("epsilon = 0, n_tables = 3, c = 0.5")


def test_algorithms_look_the_same_everywhere_and_differ(charts):
    looks = {}
    for chart in charts.values():
        for panel in chart.panels:
            for series in panel.series:
                assert looks.setdefault(series.name, series.style) == series.style
    algorithms = [*BASELINES, "BanditMIPS", "BanditMIPS-alpha", "Bucket_AE", "Naive"]
    assert len({style_of(name).marker for name in algorithms}) == len(algorithms)
    assert len({style_of(name).symbol for name in algorithms}) == len(algorithms)
    assert len({style_of(name).colour for name in algorithms}) == len(algorithms)
    assert len({(look.dashes, look.hollow) for look in SOURCES.values()}) == len(SOURCES)


def test_colours_stand_out_from_white():
    for name in [
        *BASELINES,
        "BanditMIPS",
        "BanditMIPS-alpha",
        "Bucket_AE",
        "BanditMIPS, fitted",
        "paired, auto",
        "optimal",
    ]:
        assert contrast_with_white(style_of(name).colour) >= 3.0, name


def contrast_with_white(colour):
    """Return the contrast ratio of WCAG 2; 3 is what it asks of graphics."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 1.05 / (luminance + 0.05)


def test_nothing_breaks_where_a_fitted_index_multiplies_nothing(made_up_rows, published):
    rows = [
        replace(row, multiplies=0.0) if row.settings == "fitted" or row.algorithm == WARM else row
        for row in made_up_rows
    ]
    measured = aggregate(rows)
    assert all(verdict.grade is not Grade.NOT_RUN for verdict in judge_claims(measured, published))
    for figure in FIGURE_TITLES:
        chart = make_chart(figure, measured, published)
        for panel in chart.panels:
            assert all(mark.y > 0 for series in panel.series for mark in series.marks if panel.y.log)
