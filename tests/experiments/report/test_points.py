"""Means and their intervals: finite, ordered, and within what is possible, however few the trials."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banditmips.experiments.beyond_warm_start import WARM
from banditmips.experiments.published import load_published
from banditmips.experiments.report.fits import fit_table, r_squared, slope
from banditmips.experiments.report.points import (
    aggregate,
    compact,
    estimate,
    failure_share,
    mean_extra,
    of_one_origin,
    proportion,
    published_points,
    ratio,
    sweep,
    with_extra,
    write_csv,
)
from banditmips.experiments.rows import Row

ROW = Row(
    "figure1", "NORMAL_CUSTOM", "drawn", "BanditMIPS", "paper", 100, 1000, 1, 0.1, None, 0, 0, 9e3, 1.0, 1e5, 1e-3
)


def rows_along(counts, **values):
    """Return rows whose d and multiplies are given."""
    return [replace(ROW, d=d, multiplies=float(count), **values) for d, count in counts.items()]


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=12))
def test_intervals_are_finite_positive_and_hold_the_mean(values):
    result = estimate(values, low=0.0)
    assert 0 < result.low <= result.mean <= result.high < math.inf
    assert result.count == len(values)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_intervals_of_accuracies_stay_between_0_and_1(values):
    result = estimate(values, low=0.0, high=1.0)
    assert 0 <= result.low <= result.mean <= result.high <= max(1.0, result.mean)


def test_intervals_cover_the_mean_in_95_of_100():
    rng = np.random.default_rng(0)
    estimates = [estimate(rng.normal(100.0, 5.0, size=5)) for _ in range(2000)]
    covered = sum(each.low <= 100.0 <= each.high for each in estimates)
    assert 0.935 <= covered / 2000 <= 0.965


def test_proportions_have_exact_intervals():
    assert proportion(0, 100).low == 0.0
    assert proportion(100, 100).high == 1.0
    half = proportion(50, 100)
    assert (half.mean, round(half.low, 3), round(half.high, 3)) == (0.5, 0.398, 0.602)


def test_trials_of_one_setting_become_one_point():
    rows = [replace(ROW, trial=trial, seed=trial, multiplies=100.0 + trial) for trial in range(3)]
    others = [replace(ROW, d=2000), replace(ROW, settings="ours"), replace(ROW, parameters={"budget": 3})]
    points = aggregate([*rows, *others])
    assert [len(point.rows) for point in points] == [3, 1, 1, 1]
    assert points[0].multiplies.mean == 101.0
    assert points[0].speed_up == pytest.approx(1e5 / 101.0)


@pytest.mark.parametrize("told", [{"settings": "fitted"}, {"algorithm": WARM}, {"figure": "beyond_sampling"}])
def test_a_fitted_index_that_multiplies_nothing_has_looked_at_every_atom(told):
    counts = {1000: 0.0, 10_000: 57.3, 100_000: 0.0, 1_000_000: 480.0}
    points = aggregate(rows_along(counts, **told))
    assert [point.multiplies.mean for point in points] == [100.0, 100.0, 100.0, 480.0]
    assert slope(points, "d").value > 0
    assert ratio(points[3], points[0]).mean == pytest.approx(4.8)
    (other,) = aggregate(rows_along({1000: 57.3}, algorithm="Bucket_AE"))
    assert other.multiplies.mean == 57.3


def test_rows_of_several_origins_are_never_mixed():
    surrogate = [replace(ROW, dataset="MovieLens", origin="surrogate", trial=trial) for trial in range(3)]
    real = [replace(row, origin="ml-1m/ratings.dat, 0123456789ab") for row in surrogate]
    other_figure = replace(surrogate[0], figure="figure2")
    rows = [*surrogate, other_figure, ROW, *real[:1]]
    # The run says where the data come from now.
    assert of_one_origin(rows, {"MovieLens": real[0].origin}) == ([other_figure, ROW, real[0]], surrogate)
    assert of_one_origin(rows, {"MovieLens": "surrogate"}) == ([*surrogate, other_figure, ROW], real[:1])
    # Without a word of the run, what was written last counts.
    assert of_one_origin(rows, {}) == ([other_figure, ROW, real[0]], surrogate)
    assert of_one_origin([*real, *surrogate[:1]], {}) == (surrogate[:1], real)
    assert {point.origin for point in aggregate(rows) if point.dataset == "MovieLens"} == {
        row.origin for row in rows[::5]
    }


def of_trials(counts, **values):
    (point,) = aggregate([replace(ROW, trial=trial, multiplies=float(x), **values) for trial, x in enumerate(counts)])
    return point


def test_ratios_have_intervals_over_the_trials():
    hard = of_trials((100, 1000, 10_000))
    # Trial by trial twice as much: the trials differ, the ratio does not.
    double = of_trials((200, 2000, 20_000))
    assert ratio(double, hard).mean == pytest.approx(2.0)
    assert ratio(double, hard).low == pytest.approx(2.0)
    noisy = ratio(of_trials((90, 1100, 9000)), hard)
    assert noisy.low < 1 < noisy.high
    alone = ratio(of_trials((200,)), hard)
    assert alone.low == alone.mean == alone.high == pytest.approx(200 / 3700)


def test_ratios_of_other_trials_add_up_both_spreads():
    few, many = of_trials((100.0, 110.0)), of_trials((50.0, 55.0, 45.0))
    found = ratio(few, many)
    error = math.sqrt(np.var([100, 110], ddof=1) / 2 / 105**2 + np.var([50, 55, 45], ddof=1) / 3 / 50**2)
    assert found.mean == pytest.approx(2.1)
    assert math.log(found.high / found.mean) == pytest.approx(12.706 * error, rel=1e-3)


def test_ratios_cover_the_truth_in_95_of_100():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(500):
        shared = rng.normal(1.0, 0.3, size=6).clip(0.1)
        found = ratio(*(of_trials(scale * shared * rng.normal(1.0, 0.05, size=6)) for scale in (2000, 1000)))
        covered += found.low <= 2.0 <= found.high
    assert 0.92 <= covered / 500 <= 0.98


def test_what_was_multiplied_before_can_be_counted_in():
    point = of_trials((100, 200), extra={"preparation_multiplies": 1000})
    assert with_extra(point, "preparation_multiplies").multiplies.mean == 1150
    assert with_extra(point, "nothing") is None


def test_published_points_have_no_intervals():
    points = published_points(load_published())
    assert len(points) == 3446
    assert all(point.multiplies.low == point.multiplies.high for point in points)
    assert {point.source for point in points} == {"published"}


def test_extras_are_averaged_where_they_are():
    rows = [replace(ROW, trial=trial, extra=extra) for trial, extra in enumerate(({"a": 1}, {"a": 3}, {}))]
    (point,) = aggregate(rows)
    assert mean_extra(point, "a").mean == 2.0
    assert mean_extra(point, "b") is None
    assert failure_share(point) is None


def test_failures_add_up_over_rows():
    rows = [replace(ROW, trial=trial, extra={"failures": trial, "trials": 50}) for trial in range(3)]
    (point,) = aggregate(rows)
    assert (failure_share(point).mean, failure_share(point).count) == (3 / 150, 150)


def test_a_figure_with_two_sweeps_is_taken_apart():
    rows = [replace(ROW, n=n, d=800, parameters={"scaling": "n"}) for n in (4000, 1000)]
    rows += [replace(ROW, n=1000, d=d, parameters={"scaling": "d"}) for d in (800, 900)]
    points = aggregate(rows)
    assert [(point.n, point.d) for point in sweep(points, "n")] == [(1000, 800), (4000, 800)]
    assert [(point.n, point.d) for point in sweep(points, "d")] == [(1000, 800), (1000, 900)]
    bins = [p for p in published_points(load_published()) if p.figure == "figure7" and p.algorithm == "Bucket_AE"]
    assert {point.d for point in sweep(bins, "n")} == {None}
    assert {point.n for point in sweep(bins, "d")} == {1000}


def test_every_row_is_in_the_csv(tmp_path):
    rows = [ROW, replace(ROW, trial=1, delta=None, parameters={"M": 4}, extra={"note": 'a, "b"\nc'})]
    write_csv(rows, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["multiplies"], first["delta"], second["delta"]) == ("9000.0", "0.1", "")
    assert json.loads(second["parameters"]) == {"M": 4}
    assert json.loads(second["extra"]) == {"note": 'a, "b"\nc'}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_slopes_are_those_of_power_laws(power):
    fit = slope(aggregate(rows_along({d: 7 * d**power for d in (100, 1000, 5000, 10_000)})), "d")
    assert fit.value == pytest.approx(power, abs=1e-9)
    assert fit.low <= fit.value <= fit.high
    assert (fit.x_low, fit.x_high) == (pytest.approx(100), pytest.approx(10_000))


def test_slopes_need_two_values_and_intervals_three_points():
    assert slope(aggregate(rows_along({100: 5})), "d") is None
    two = slope(aggregate(rows_along({100: 5, 1000: 50})), "d")
    assert (str(two), two.low) == ("1.00", None)


def test_trials_that_are_harder_than_others_do_not_blur_the_slope():
    rows = []
    for trial, height in enumerate((1.0, 100.0, 7.0)):
        rows += rows_along({d: height * d**0.3 for d in (100, 1000, 10_000)}, trial=trial)
    rows += rows_along({100: 1e9}, trial=3)  # a trial that has only begun tells nothing of growth
    fit = slope(aggregate(rows), "d")
    assert fit.value == pytest.approx(0.3)
    assert fit.high - fit.low < 1e-6


def test_no_slope_is_written_as_minus_zero():
    fit = slope(aggregate(rows_along({100: 1000.0, 1000: 999.9, 10_000: 999.8})), "d")
    assert fit.value < 0
    assert str(fit) == "0.00 (0.00 to 0.00)"


@pytest.mark.parametrize(
    ("curve", "best"), [(lambda d: 5 + 2 * d, "linear"), (np.log, "log"), (np.sqrt, "square root")]
)
def test_the_true_curve_fits_wholly(curve, best):
    fits = r_squared(aggregate(rows_along({d: curve(d) for d in (1000, 5000, 100_000, 1_000_000)})))
    assert fits[best] == pytest.approx(1.0)
    assert max(fits, key=fits.get) == best
    assert fits["constant"] == pytest.approx(0.0)


def test_level_means_are_fitted_by_all_and_two_points_by_none():
    assert set(r_squared(aggregate(rows_along({10: 3, 20: 3, 30: 3}))).values()) == {1.0}
    assert r_squared(aggregate(rows_along({10: 3, 20: 4}))) is None


def test_the_table_of_fits_has_a_row_for_each_source():
    published = [point for point in published_points(load_published()) if point.figure == "figure1"]
    measured = aggregate(rows_along({10: 3, 20: 4}, origin="surrogate"))
    table = fit_table(measured, published, ["NORMAL_CUSTOM", "MovieLens"])
    assert [row[:2] for row in table.rows] == [
        ("NORMAL_CUSTOM (surrogate)", "measured, the paper's settings"),
        ("NORMAL_CUSTOM", "published by the authors"),
        ("MovieLens", "published by the authors"),
    ]
    assert table.rows[0][2:] == ("-", "-", "-", "-", "0.42")
    assert table.rows[1][2:] == ("0.000", "0.827", "0.990", "0.978", "0.86 (0.81 to 0.91)")


def test_counts_are_written_short():
    assert [compact(count) for count in (7, 999, 1000, 143_458, 999_999, 26e6, 2e9)] == [
        "7",
        "999",
        "1k",
        "143k",
        "1M",
        "26M",
        "2G",
    ]
