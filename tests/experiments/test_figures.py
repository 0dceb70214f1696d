"""The tasks of each figure: what they are made of, and that each kind runs."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain

import numpy as np
import pytest

import banditmips as bm
from banditmips.experiments import beyond_clock, beyond_failures, beyond_sampling, figure2, tradeoffs
from banditmips.experiments.beyond import needed_by_theorem_1
from banditmips.experiments.entries import DATASETS, EXACT_NORMS, NORM_COORDINATES, race, settings_of
from banditmips.experiments.kinds import KINDS, draw_kind
from banditmips.experiments.plan import choose_figures, plan
from banditmips.experiments.published import load_published
from banditmips.experiments.rows import DRAWN, FIGURES, FITTED, OURS, PAPER, SETTINGS, SURROGATE, VARIANCE, row_key
from banditmips.experiments.today import Today
from banditmips.experiments.trials import Sample, Trial, draw, precision

EIGHT = {
    "BoundedME",
    "Greedy-MIPS",
    "LSH-MIPS",
    "H2-ALSH-MIPS",
    "NEQ-MIPS",
    "PCA-MIPS",
    "HNSW-MIPS",
    "NAPG-MIPS",
}
FOUR = {"NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens"}


def keys_of(tasks):
    return list(chain.from_iterable(task.keys() for task in tasks))


def trials_of(figure, effort):
    return [task for task in plan([figure], effort) if isinstance(task, Trial)]


def entries_of(figure, effort, dataset):
    return [entry for task in trials_of(figure, effort) if task.dataset == dataset for entry in task.entries]


@pytest.mark.parametrize("effort", ["full", "quick"])
def test_no_two_rows_of_a_run_have_the_same_key(effort):
    keys = keys_of(plan(FIGURES, effort))
    assert len(set(keys)) == len(keys) > 1000


@pytest.mark.parametrize("effort", ["full", "quick"])
@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_has_tasks_that_cost_something(figure, effort):
    tasks = plan([figure], effort)
    assert tasks
    assert all(task.cost > 0 and task.figure == figure for task in tasks)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_has_the_default_without_an_index_and_after_fit(figure):
    settings = {json.loads(key)[4] for key in keys_of(plan([figure], "quick"))}
    assert OURS in settings
    # There is nothing to fit in a song, which is a function; and weights are compared at a bound that is told.
    assert (FITTED in settings) == (figure not in ("figure8", "beyond_sampling"))


def test_a_figure_alone_has_the_rows_that_it_has_among_all(tiny):
    alone = [key for figure in FIGURES for key in keys_of(plan([figure], "full"))]
    assert sorted(alone) == sorted(keys_of(plan(FIGURES, "full")))


@pytest.mark.parametrize("figure", ["figure1", "figure4", "figure9"])
def test_delta_epsilon_and_sizes_are_those_of_the_logs(figure):
    logs = defaultdict(set)
    for point in load_published():
        if point.figure == figure:
            logs[point.dataset].add((point.n, point.d, point.delta, point.epsilon))
    for dataset, points in logs.items():
        tasks = [task for task in trials_of(figure, "full") if task.dataset == dataset]
        paper = {
            (n, d, entry.delta, entry.epsilon)
            for task in tasks
            for n, d in task.sizes
            for entry in task.entries
            if entry.settings == PAPER
        }
        # 999,999 and 1,000,000 are the same to us.
        missing = {(n, d) for n, d, *_ in points - paper if d != 999_999}
        assert not missing, dataset


def test_the_papers_settings_are_hoeffding_with_its_sigma_and_ours_the_defaults():
    sigmas = {"NORMAL_CUSTOM": 1, "Netflix": 25, "MovieLens": 25, "Sift-1M": 6.25e5, "CryptoPairs": 2.5e9}
    for dataset, sigma in sigmas.items():
        paper = race("BanditMIPS", PAPER, dataset, 0.1, 0.0)
        told = {"bound": "hoeffding", "sigma": sigma, "sampling": "uniform"}
        assert paper.options == {**told, "minimise": "multiplies", "rescore": False}
        assert race("BanditMIPS-alpha", PAPER, dataset, 0.1, 0.0).options["sampling"] == "sorted"
        assert race("BanditMIPS", OURS, dataset, 0.1, 0.0).options == {"fitted": False}
        assert race("BanditMIPS", FITTED, dataset, 0.1, 0.0).options == {"fitted": True}
        if sigma != 1:
            variance = race("BanditMIPS", VARIANCE, dataset, 0.1, 0.0)
            assert variance.options == {**paper.options, "sigma": sigma**0.5}
    bins = race("Bucket_AE", PAPER, "Netflix", 0.1, 0.0)
    assert (bins.options["bucket_size"], bins.options["sigma"]) == (30, 25)
    assert settings_of("BanditMIPS", "NORMAL_CUSTOM") == (PAPER, OURS, FITTED)
    assert settings_of("BanditMIPS-alpha", "Netflix") == (PAPER, VARIANCE, OURS)


def test_bins_have_norms_from_a_constant_number_of_coordinates_and_beside_them_exact_ones():
    from banditmips.race.buckets import N_NORM_SAMPLES

    assert NORM_COORDINATES == N_NORM_SAMPLES
    printed, exact = (race(name, PAPER, "Netflix", 0.1, 0.0) for name in ("Bucket_AE", EXACT_NORMS))
    assert printed.preparation(100, 5000) == {"preparation_multiplies": 100 * 64}
    assert exact.preparation(100, 5000) == {"preparation_multiplies": 100 * 5000}
    assert race("BanditMIPS", PAPER, "Netflix", 0.1, 0.0).preparation(100, 5000) == {}
    atoms = np.random.default_rng(0).normal(size=(200, 400)).astype(np.float32)
    estimated, known = (entry.make(400, seed=1) for entry in (printed, exact))
    estimated.fit(atoms)
    known.fit(atoms)
    # The order of the bins is that of estimated norms in one and of the norms themselves in the other.
    assert known.search(atoms[3], 1).checked
    assert not estimated.search(atoms[3], 1).checked


def test_the_defaults_are_asked_for_few_multiplies_and_for_little_time():
    data = draw("NORMAL_CUSTOM", (100, 5000), 1, seed=0)
    for fitted in (False, True):
        searcher = Today(fitted=fitted, delta=0.01, epsilon=0.0, seed=0)
        searcher.fit(data.atoms)
        few, fast = searcher.search(data.queries[0], 1), searcher.search_fast(data.queries[0], 1)
        assert few.n_multiplies <= fast.n_multiplies
        assert few.indices[0] == fast.indices[0] == (data.atoms @ data.queries[0]).argmax()
        assert fast.exact.all()


def test_epsilon_is_per_coordinate():
    searcher = race("BanditMIPS", PAPER, "NORMAL_CUSTOM", 0.1, 0.01).make(500, seed=3)
    assert searcher._options["epsilon"] == pytest.approx(5.0)
    assert searcher._options["seed"] == 3


@pytest.mark.parametrize("effort", ["full", "quick"])
@pytest.mark.parametrize("dataset", sorted(FOUR))
def test_figure_2_has_every_algorithm_at_k_5(dataset, effort):
    found = {(entry.algorithm, entry.settings) for entry in entries_of("figure2", effort, dataset)}
    races = {(name, way) for name in ("BanditMIPS", "BanditMIPS-alpha") for way in settings_of(name, dataset)}
    assert found == races | {(name, PAPER) for name in (*EIGHT, "BoundedME, true range", "Naive")}
    assert {k for task in trials_of("figure2", effort) for _, k in task.questions} == {5} == {figure2.K}


@pytest.mark.parametrize("effort", ["full", "quick"])
@pytest.mark.parametrize(("figure", "k"), [("figure3", 1), ("figure5", 5), ("figure6", 10)])
def test_trade_offs_have_every_algorithm_and_their_k(figure, k, effort):
    assert {question for task in trials_of(figure, effort) for question in task.questions} == {(figure, k)}
    for dataset in FOUR:
        assert {entry.algorithm for entry in entries_of(figure, effort, dataset)} == EIGHT | {
            *tradeoffs.RACES,
            "BoundedME, true range",
        }


def test_sweeps_begin_and_end_as_the_paper_says():
    last = tradeoffs.N_STEPS - 1
    ends = {name: (at(0).parameters, at(last).parameters) for name, at in tradeoffs.SWEEPS.items()}
    for name in ("HNSW-MIPS", "NAPG-MIPS"):
        assert ends[name][0] == {"M": 4, "ef_construction": 2, "ef_search": 2}
        assert ends[name][1] == {"M": 32, "ef_construction": 500, "ef_search": 500}
    assert [each["budget"] for each in ends["Greedy-MIPS"]] == [2, 999]
    assert [each["n_functions"] for each in ends["LSH-MIPS"]] == [1, 10]
    assert [each["delta"] for each in ends["H2-ALSH-MIPS"]] == [1 / 16, 1 / 2]
    assert [each["c0"] for each in ends["H2-ALSH-MIPS"]] == [1.2, 5]
    assert [each["codewords"] for each in ends["NEQ-MIPS"]] == [100, 1]
    for at in (tradeoffs.SWEEPS["BoundedME"], tradeoffs.sweep_race("BanditMIPS", PAPER, "Netflix")):
        assert [at(0).delta, at(last).delta] == pytest.approx([1e-10, 0.99])
        assert [at(0).epsilon, at(last).epsilon] == pytest.approx([1e-10, 3])


def test_bounded_me_comes_to_the_published_counts():
    published = [
        point.multiplies
        for point in load_published()
        if (point.figure, point.dataset, point.algorithm) == ("figure3", "NORMAL_CUSTOM", "BoundedME")
    ]
    atoms = np.zeros((1000, 10_000), dtype=np.float32)
    for step in (19, 23):  # the first ones take all coordinates, and a while
        searcher = tradeoffs.SWEEPS["BoundedME"](step).make(10_000, seed=0)
        searcher.fit(atoms)
        assert searcher.search(np.ones(10_000), 1).n_multiplies == published[step]


def test_figure_7_grows_with_and_without_bins_against_n_and_with_bins_against_d():
    found = {
        (task.dataset, entry.algorithm, entry.settings, entry.parameters["scaling"], task.transposed)
        for task in trials_of("figure7", "full")
        for entry in task.entries
    }
    for dataset in ("CORRELATED_NORMAL_CUSTOM", "Netflix"):
        for settings in (PAPER, OURS):
            names = ("BanditMIPS", "Bucket_AE", EXACT_NORMS)
            against_n = {(dataset, name, settings, "n", dataset == "Netflix") for name in names}
            assert against_n | {(dataset, name, settings, "d", False) for name in names[1:]} <= found


def test_only_the_clock_is_read_alone():
    assert {task.figure for task in plan(FIGURES, "full") if task.alone} == {"beyond_clock", "beyond_warm_start"}


def test_names_of_figures():
    assert choose_figures(["all"]) == list(FIGURES)
    assert choose_figures(["figure9", "1", "FIGURE1"]) == ["figure1", "figure9"]
    assert choose_figures(["beyond_clock"]) == ["beyond_clock"]
    with pytest.raises(ValueError, match="there is no figure '0'; known are all, 1 to 9"):
        choose_figures(["0"])


def runs(figure):
    """Run one task of each kind of a figure (by algorithms), and check that its rows are those that it promised."""
    kinds = {(task.algorithm, getattr(task, "transposed", None)): task for task in plan([figure], "full")}
    rows = []
    for task in kinds.values():
        made = list(task.run(frozenset()))
        assert sorted(map(row_key, made)) == sorted(task.keys())
        rows += made
    for row in rows:
        assert row.naive == row.n * row.d * (5 if row.figure == "figure8" else 1)  # five searches
        assert 0.0 <= row.accuracy <= 1.0
        # An index may settle a query by certain bounds, without a multiply.
        assert row.multiplies > 0 or row.settings == "fitted"
        assert row.seconds > 0
        from_files = row.dataset in DATASETS and DATASETS[row.dataset].from_files
        assert row.origin == (SURROGATE if from_files else DRAWN)
        if row.algorithm == "BanditMIPS" and row.settings in (OURS, FITTED) and "fast_seconds" in row.extra:
            assert row.extra["fast_seconds"] > 0
            assert 0.0 <= row.extra["fast_accuracy"] <= 1.0
    return rows


@pytest.mark.parametrize("figure", ["figure1", "figure4", "figure7", "figure9"])
def test_tasks_run(tiny, figure):
    rows = runs(figure)
    assert {row.settings for row in rows} == set(SETTINGS) - ({VARIANCE} if figure == "figure9" else set())
    assert all(row.extra["blas_seconds"] > 0 for row in rows)
    assert all("fast_seconds" in row.extra for row in rows if row.settings == FITTED)
    # Trials this small end in exact products more often than not.
    assert np.mean([row.accuracy for row in rows]) > 0.8


def test_all_algorithms_of_figure_2_run(tiny):
    rows = runs("figure2")
    naive = [row for row in rows if row.algorithm == "Naive"]
    assert all(row.accuracy == 1.0 and row.multiplies == row.naive for row in naive)
    assert len({row.algorithm for row in rows}) == 12


def test_all_algorithms_of_the_trade_offs_run(tiny):
    rows = runs("figure5")
    assert len({row.algorithm for row in rows}) == 12
    assert all(row.k == 5 for row in rows)


def test_a_song_is_taken_apart(tiny):
    rows = runs("figure8")
    assert [(row.algorithm, row.settings) for row in rows] == [
        ("BanditMIPS", PAPER),
        ("BanditMIPS", OURS),
        ("MatchingPursuit", OURS),
    ]
    for row in rows:
        assert row.accuracy == 1.0
        assert row.extra["notes"] == ["G4", "C5", "E4", "E5", "C4"]
        np.testing.assert_allclose(row.extra["coefficients"], [3, 1.25, 1, 0.75, 0.5], rtol=0.03)
        assert row.extra["song_minutes"] == 2
        assert row.multiplies < row.naive / 20


def test_the_other_bounds_run(tiny):
    bounds = {(row.parameters["bound"], row.parameters.get("sampling")) for row in runs("beyond_bounds")}
    assert bounds == {
        ("hoeffding", "uniform"),
        ("hoeffding, sigma squared", "uniform"),
        ("hoeffding_serfling", "uniform"),
        ("bernstein", "uniform"),
        ("paired", "uniform"),
        ("paired", "auto"),
        ("default without an index", None),
        ("default after fit", None),
    }


def test_the_clock_runs(tiny):
    rows = runs("beyond_clock")
    assert {(row.algorithm, row.settings) for row in rows} == {("BanditMIPS", settings) for settings in SETTINGS}
    assert all(row.extra["blas_seconds"] > 0 and row.extra["fit_seconds"] > 0 for row in rows)
    assert all(("fast_seconds" in row.extra) == (row.settings in (OURS, FITTED)) for row in rows)
    assert {entry.settings for entry in beyond_clock.contestants("NORMAL_CUSTOM")} == {PAPER, OURS, FITTED}


def test_failures_are_counted(tiny):
    for figure, n_bounds in (("beyond_failures", 5), ("beyond_kinds", 2)):
        rows = runs(figure)
        assert len(rows) == n_bounds * len(beyond_failures.DELTAS[figure])
        assert all(row.extra["trials"] == 4 and row.accuracy == 1 - row.extra["failures"] / 4 for row in rows)
        assert all(0 <= row.extra["sampled"] <= 4 for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_drawn_from_their_seed(kind):
    atoms, queries = draw_kind(kind, 10, 200, 1, seed=3)
    assert (atoms.shape, queries.shape, atoms.dtype) == ((10, 200), (1, 200), np.float32)
    assert np.isfinite(atoms).all()
    np.testing.assert_array_equal(atoms, draw_kind(kind, 10, 200, 1, seed=3)[0])
    assert (atoms != draw_kind(kind, 10, 200, 1, seed=4)[0]).any()
    with pytest.raises(ValueError, match=r"n_queries must be 1 for .*, got 2"):
        draw_kind(kind, 10, 200, 2, seed=3)


def test_sampling_and_the_sweeps_of_one_thing_run(tiny):
    rows = runs("beyond_sampling")
    assert {(row.settings, row.parameters.get("beta")) for row in rows} == {
        (settings, beta) for settings in (PAPER, OURS) for beta in (*beyond_sampling.BETAS, None)
    }
    assert all(row.extra["variance_over_optimal"] >= 1 - 1e-12 for row in rows)
    assert len({row.delta for row in runs("beyond_delta")}) == 2
    epsilons = runs("beyond_epsilon")
    assert len({row.epsilon for row in epsilons}) == 2
    assert {row.delta for row in epsilons} == {0.01}


def test_no_weights_have_less_variance_than_those_of_theorem_2():
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(5, 30)), rng.normal(size=30)
    query[3] = 0.0
    best = beyond_sampling.combined_variance(atoms, query, beyond_sampling.weights(atoms, query, None))
    for others in rng.dirichlet(np.ones(30), size=50):
        assert beyond_sampling.combined_variance(atoms, query, others) > best
    # By its definition: the variance of q_J v_iJ / (d w_J) under the weights, summed over the atoms.
    weights = rng.dirichlet(np.ones(30))
    terms = query * atoms / (30 * weights)
    defined = (weights * (terms - (weights * terms).sum(axis=1, keepdims=True)) ** 2).sum()
    assert beyond_sampling.combined_variance(atoms, query, weights) == pytest.approx(defined)


def test_where_atoms_follow_the_query_less_variance_drops_fewer_atoms():
    """The reason told beneath the claim: with Theorem 2's weights one coordinate holds much of a sum of squares."""
    atoms, queries = draw("CORRELATED_NORMAL_CUSTOM", (100, 10_000), 1, seed=0)
    left = {}
    for entry in beyond_sampling.contestants():
        if entry.settings == OURS and entry.parameters.get("beta", 0.5) == 0.5:
            index = bm.BanditMIPS(**entry.options, delta=entry.delta, trace=True).fit(atoms)
            rounds = index.search(queries[0]).trace.rounds
            left["beta" in entry.parameters] = next(one.n_survivors for one in rounds if one.n_coordinates >= 58)
    assert left[False] > 50 > 20 > left[True]


def test_a_warm_start_is_shared_out_over_the_queries(tiny):
    rows = runs("beyond_warm_start")
    assert {(row.algorithm, row.settings) for row in rows} == {
        ("BanditMIPS", PAPER),
        ("BanditMIPS, warm start", PAPER),
        ("BanditMIPS", OURS),
        ("BanditMIPS, warm start", OURS),
        ("BanditMIPS", FITTED),
    }
    assert {row.parameters["queries"] for row in rows} == {1, 3}
    for row in rows:
        assert row.seconds * row.parameters["queries"] >= row.extra["fit_seconds"]


def test_the_theorem_runs(tiny):
    rows = runs("beyond_theorem1")
    assert all(0 < row.extra["bound_theorem1"] <= 2 * row.naive for row in rows)
    assert all((row.extra["capped"] == 1) == (row.extra["bound_theorem1"] == 2 * row.naive) for row in rows)


def test_the_bound_of_theorem_1():
    # Gaps per coordinate 1 (and so for the best atom) and 2 in units of c0, n = 3, delta = 0.01, term by term.
    needed = [16 / gap**2 * np.log(3 / (0.01 * gap)) + 1 for gap in (1.0, 1.0, 2.0)]
    scores = np.array([50.0, 100.0, 0.0])
    expected = pytest.approx(np.array([needed[0], needed[1], needed[2]]))
    assert needed_by_theorem_1(scores, d=100, c0=0.5, delta=0.01) == expected
    assert needed_by_theorem_1(7 * scores, d=100, c0=3.5, delta=0.01) == expected
    assert needed_by_theorem_1(scores, d=100, c0=5.0, delta=0.01).tolist() == [200.0] * 3
    assert needed_by_theorem_1(np.array([1e9, 0.0]), d=10, c0=1.0, delta=0.01).tolist() == [1.0, 1.0]


def test_rows_that_are_there_are_not_measured_again(tiny):
    task = trials_of("figure1", "full")[0]
    first, second = task.keys()[0], task.keys()[-1]
    assert [row_key(row) for row in task.run(frozenset(task.keys()) - {first, second})] == [first, second]
    assert list(task.run(frozenset(task.keys()))) == []


def test_the_same_trial_gives_the_same_counts(tiny):
    task = trials_of("figure1", "full")[0]
    once, again = ([row.multiplies for row in task.run(frozenset())] for _ in range(2))
    assert once == again


def test_the_accuracy_comes_from_exact_products():
    scores = np.array([5.0, 3.0, 3.0, 1.0])
    assert precision(np.array([0]), scores, 1) == 1.0
    assert precision(np.array([1]), scores, 1) == 0.0
    assert precision(np.array([0, 2]), scores, 2) == 1.0  # atoms 1 and 2 tie
    assert precision(np.array([0, 0]), scores, 2) == 0.5
    assert precision(np.array([0, -1]), scores, 2) == 0.5
    assert precision(np.array([0, 1, 2, 3]), scores, 9) == 1.0


def test_transposed_atoms_and_queries_are_the_coordinates_of_others():
    plain = draw("Netflix", (6, 12), 1, seed=3, origin=SURROGATE)
    turned = draw("Netflix", (10, 6), 2, seed=3, origin=SURROGATE, transposed=True)
    np.testing.assert_array_equal(np.vstack([turned.atoms, turned.queries]), plain.atoms.T)


def test_a_cut_keeps_atoms_and_queries_together():
    atoms, queries = np.arange(12.0).reshape(3, 4), np.arange(4.0)[np.newaxis]
    cut = Sample(atoms, queries).cut(2, 2, np.array([3, 1, 0, 2]))
    np.testing.assert_array_equal(cut.atoms, atoms[:2][:, [1, 3]])
    np.testing.assert_array_equal(cut.queries, queries[:, [1, 3]])
    np.testing.assert_array_equal(Sample(atoms, queries).cut(3, 2, None).atoms, atoms[:, :2])
