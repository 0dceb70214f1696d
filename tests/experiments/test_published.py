"""The published figures: all there, under the names that rows have."""

from __future__ import annotations

from collections import Counter

from banditmips.experiments.published import load_published
from banditmips.experiments.rows import FIGURES

ALGORITHMS = {
    "BanditMIPS",
    "BanditMIPS-alpha",
    "Bucket_AE",
    "BoundedME",
    "Greedy-MIPS",
    "LSH-MIPS",
    "PCA-MIPS",
    "H2-ALSH-MIPS",
    "NEQ-MIPS",
    "HNSW-MIPS",
    "NAPG-MIPS",
}


def test_every_line_is_a_point_of_a_figure():
    points = load_published()
    assert len(points) == 3446
    assert {point.figure for point in points} == {name for name in FIGURES if name.startswith("figure")}
    assert {point.algorithm for point in points} == ALGORITHMS


def test_points_of_each_figure():
    # 10 values of d on 4 datasets; 7 algorithms of them; 24 steps of 11 algorithms on 4 datasets; and so on.
    counts = Counter(point.figure for point in load_published())
    assert counts["figure1"] == 40
    assert counts["figure2"] == 280
    assert counts["figure3"] == 24 * 11 * 4
    assert counts["figure4"] == 20
    assert counts["figure8"] == counts["figure9"] == 10
    assert counts["figure7"] == 20 + 20 + 15 + 20 + 15 + 20


def test_known_points():
    points = load_published()
    symmetric = [point for point in points if point.figure == "figure9"]
    assert (symmetric[-1].dataset, symmetric[-1].d, symmetric[-1].multiplies) == ("SymmetricNormal", 100_000, 9_963_432)
    song = [point for point in points if point.figure == "figure8"]
    assert (song[-1].dataset, song[-1].d, song[-1].delta, song[-1].multiplies) == ("SimpleSong", 26_000_000, 1e-4, 3048)


def test_figure_2_is_for_five_atoms_though_the_logs_say_one():
    assert {point.k for point in load_published() if point.figure == "figure2"} == {5}
    assert {point.k for point in load_published() if point.figure == "figure6"} == {10}


def test_what_the_logs_do_not_say_is_none():
    unknown = [point for point in load_published() if point.d is None]
    assert {point.figure for point in unknown} == {"figure7"}
    assert all(point.naive is None for point in unknown)
    assert {point.dataset_in_log for point in unknown} == {"CORRELATED_NORMAL_CUSTOM", "TRANSPOSED_NETFLIX"}
    assert all(point.delta is None for point in load_published() if point.figure in ("figure3", "figure5", "figure6"))
