"""The benchmark's own functions, on tiny workloads: what it computes from times, never how long anything takes."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from banditmips import datasets

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import __main__ as command
from benchmarks import (
    batches,
    charts,
    docs_page,
    drawn,
    full,
    goals,
    grid,
    growth,
    machine,
    measure,
    multiplies,
    options,
    real_rows,
    report,
    results,
    run,
    runner,
    scale,
    threads,
    truth,
)
from benchmarks.ours import Ours
from benchmarks.peers import CODES, GRAPHS, PEERS, missing_peers
from benchmarks.real import SourceMissingError
from benchmarks.records import Record, best_flat, merge
from benchmarks.searchers import Problem
from benchmarks.synthetic import WORKLOADS
from benchmarks.workloads import Asked, Instance, Scale, Workload, many_queries

TINY = Scale(quick=True, n_queries=3, repeats=2, n_seeds=2, budget=600.0)
SOON = replace(TINY, n_queries=2, repeats=1, budget=0.01)
FACTS = {
    "date": "2026-01-01T00:00:00+00:00",
    "commit": "0123456789ab",
    "cpu": "a processor",
    "cores": 2,
    "python": "3.11.0",
    "versions": {"numpy": "2.0.0"},
    "blas": "openblas 0.3",
    "threads": 1,
    "load_average": [0.1, 0.1, 0.1],
}


@pytest.fixture(autouse=True)
def little_other_memory(monkeypatch):
    """Tests measure nothing that matters: a small pass in place of 64 MB."""
    monkeypatch.setattr(measure, "_other_memory", lambda: np.ones(10))


def record(name="fitted", kind="ours", warm=((10.0, 20.0),), cold=None, shares=(1.0,), **others):
    cold = warm if cold is None else cold
    asked = others.pop("asked", "k = 1")
    return Record(
        "section",
        (100, 20_000),
        asked,
        name,
        kind,
        [list(t) for t in warm],
        [list(t) for t in cold],
        list(shares),
        **others,
    )


def row(ours=10.0, reference=100.0, cold=None, **others):
    """A row whose 95th percentiles are twice the medians."""
    pair = goals.Pair(ours, 2 * ours, reference, 2 * reference, "NumPy BLAS")
    cold = pair if cold is None else goals.Pair(cold, 2 * cold, reference, 2 * reference, "FAISS flat")
    values = {
        "section": "real-genotypes",
        "work": "genotypes",
        "shape": (100, 20_000),
        "asked": "k = 1",
        "way": "fitted",
    }
    judged = {"recall": 1.0, "n_wrong": 0, "n_answers": 8, "answers_plausible": True}
    return goals.Row(**{**values, **judged, "warm": pair, "cold": cold, **others})


FITTED = (Ours("fitted", True),)


def tiny_workload(ours=FITTED, peers=("blas",), **others):
    return Workload("tiny", "ratings", many_queries("ratings", 30, 200, least=5), ours, peers, **others)


# timing


def test_summary_takes_all_times_of_all_requests():
    summary = measure.summarise([[1.0, 2.0, 3.0], [4.0, 5.0], list(np.arange(6.0, 102.0))])
    assert (summary.median, summary.q25, summary.q75, summary.n_times) == (51.0, 26.0, 76.0, 101)
    assert summary.p95 == 96.0


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.001, (10, 5)), (0.03, (10, 3)), (0.1, (10, 1)), (0.25, (4, 1)), (0.9, (3, 1)), (7.0, (1, 1)), (0.0, (10, 5))],
)
def test_slow_ways_get_fewer_repeats_then_fewer_requests(seconds, expected):
    assert measure.affordable_runs(seconds, n_requests=10, repeats=5, budget=1.0) == expected


def test_blocks_are_interleaved_and_begin_with_an_untimed_request(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "_pass_over_other_memory", lambda: calls.append("other"))

    def entrant(name):
        def search(request, k):
            calls.append((name, int(request[0]), k))
            return request

        return measure.Entrant(name, search, [np.array([1]), np.array([2])], np.array([0]), k=7)

    both = [entrant("a"), entrant("b")]
    measure.measure(both, repeats=6, budget=60.0)
    warm = [(name, request, 7) for _ in range(6) for name in "ab" for request in (0, 1, 2)]
    # A third as many cold repeats; other memory is read before each request that is timed, for everybody.
    cold = [
        call for _ in range(2) for name in "ab" for call in ((name, 0, 7), "other", (name, 1, 7), "other", (name, 2, 7))
    ]
    assert calls == [("a", 0, 7), ("a", 1, 7), ("b", 0, 7), ("b", 1, 7), "other", *warm, *cold]
    for measured in both:
        assert [len(times) for times in measured.warm] == [6, 6]
        assert [len(times) for times in measured.cold] == [2, 2]
        assert [[int(found[0]) for found in repeats] for repeats in measured.answers] == [[1] * 8, [2] * 8]


def test_other_memory_is_larger_than_caches():
    assert measure.OTHER_BYTES == 64 << 20


# right answers


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean", "neg_l1"])
def test_exact_scores_in_blocks(monkeypatch, objective):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(50, 30)).astype("float32"), rng.normal(size=(4, 30)).astype("float32")
    monkeypatch.setattr(truth, "_BLOCK_ENTRIES", 200)
    wide, long = atoms.astype(np.float64), queries.astype(np.float64)
    apart = long[:, np.newaxis] - wide
    expected = {
        "inner_product": long @ wide.T,
        "cosine": long @ (wide / np.linalg.norm(wide, axis=1, keepdims=True)).T,
        "neg_sqeuclidean": -np.square(apart).sum(axis=2),
        "neg_l1": -np.abs(apart).sum(axis=2),
    }[objective]
    np.testing.assert_allclose(truth.exact_scores(atoms, queries, objective), expected, rtol=1e-11)


def test_an_answer_is_right_if_it_ties_with_the_best():
    scores = np.array(
        [[1.0, 3.0, 3.0 - 1e-6], [-5.0, -4.0, -4.0001], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]
    )
    ids = np.array([[2], [2], [-1], [0], [3]])
    assert truth.shares_found(ids, scores, 1).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert truth.shares_found(ids, scores, 1, shortfall=0.001).tolist() == [1.0, 1.0, 0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="ids must hold 1 atoms for each of the 5 queries"):
        truth.shares_found(np.array([[0], [1]]), scores, 1)


def test_recall_counts_distinct_atoms_among_the_k_best():
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]])
    for ids, share in (([1, 0, 2], 1.0), ([0, 1, 3], 2 / 3), ([0, 0, 0], 1 / 3), ([4, 3, -1], 0.0)):
        assert truth.shares_found(np.array([ids]), scores, 3)[0] == share
    everything = np.array([[4, 3, 2, 1, 0, -1, -1]])  # k = 7 of five atoms
    assert truth.shares_found(everything, scores, 7)[0] == 1.0


def test_a_query_counts_as_right_only_if_every_repeat_was():
    scores = [np.array([[0.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    answers = [[np.array([1]), np.array([0])], [np.array([[0], [1]])]]
    assert runner.check_answers(answers, scores) == [0.0, 1.0, 1.0]


def test_wrong_answers_are_judged_by_what_delta_explains():
    assert truth.plausible([True] * 10, 0.0)
    assert truth.plausible([True] * 63 + [False], 1e-3)
    assert not truth.plausible([True] * 62 + [False] * 2, 1e-3)
    assert truth.plausible([True] * 80 + [False] * 10, 0.1)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean", "neg_l1"])
@pytest.mark.parametrize("norms_known", [True, False])
def test_full_passes_find_the_best_of_every_objective(objective, norms_known, monkeypatch):
    monkeypatch.setattr(full, "_BLOCK_ENTRIES", 100)
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(40, 30)).astype("float32"), rng.normal(size=(5, 30)).astype("float32")
    problem = Problem(objective, norms_known)
    scores = truth.exact_scores(atoms, queries, objective)
    peers = ["blas"] + (["faiss_flat"] if "faiss_flat" not in missing_peers() else [])
    for key in peers:
        searcher = PEERS[key].build(atoms, 1, problem)
        for k in (1, 7):
            together = truth.found_ids(searcher.search(queries, k), 5)
            np.testing.assert_array_equal(together, np.argsort(-scores, axis=1)[:, :k])
            alone = truth.found_ids(searcher.search(queries[0], k), 1)
            np.testing.assert_array_equal(alone, together[:1])


# goals


@pytest.mark.parametrize(
    ("figure", "limit", "value", "reached", "text"),
    [
        ("speed_up", 100.0, 100.0, True, "100x"),
        ("speed_up", 100.0, 99.9, False, "100x"),
        ("growth", 1.3, 1.3, True, "<= 1.30x"),
        ("of_published", 0.5, 0.6, False, "<= 0.50x"),
    ],
)
def test_goals(figure, limit, value, reached, text):
    goal = goals.Goal(figure, limit)
    assert goal.reached_by(value) is reached
    assert str(goal) == text
    line = goals.Line("row", goal, value, 1.0, 1.0, "them", 1.0, 8)
    assert goals.verdict(line) is reached
    assert goals.verdict(replace(line, answers_plausible=False)) is False


def test_a_row_is_behind_warm_or_cold_by_its_median_or_its_slowest():
    assert goals.losses(row(ours=105.0)) == []
    assert goals.losses(row(ours=106.0)) == ["median 1.06x its time warm", "median 1.06x its time cold"]
    assert goals.losses(row(cold=111.0)) == ["median 1.11x its time cold", "p95 1.11x its p95 cold"]
    wrong = row(answers_plausible=False, n_wrong=3)
    assert goals.losses(wrong) == ["3 of 8 wrong"]
    small = row(ours=4.5, reference=3.0)
    assert len(goals.losses(small)) == 4
    # Two microseconds may be added; the 95th percentile is 3 over here.
    assert goals.losses(replace(small, goals=goals.Goals(added_us=2.0))) == [
        "p95 1.50x its p95 warm",
        "p95 1.50x its p95 cold",
    ]


def test_goals_of_a_row():
    quick = row(ours=1.0, cold=4.0)
    assert goals.misses(quick, {}) == []
    aimed = replace(quick, goals=goals.Goals(150, 20, p95=0.01))
    assert goals.misses(aimed, {}) == ["100x warm, not 150x", "p95 0.02x its time, not 0.01x"]
    assert str(aimed.goals) == "150x / 20.0x, p95 0.01x its time"
    default = row(ours=1.0, section="options-plain")
    share = goals.Goals(share_of=default.key)
    assert goals.misses(row(ours=3.0, goals=share), goals.by_key([default])) == []
    assert goals.misses(row(ours=3.1, goals=share), goals.by_key([default])) == ["32.3x warm where the default is 100x"]
    assert goals.misses(row(ours=3.1, goals=share), {}) == []
    costly = row(extra_bytes=12, atom_bytes=100, fit_seconds=0.9, sum_seconds=0.1, shape=(1_000, 20_000))
    assert goals.misses(costly, {}) == ["fit 9.0x a sum", "extra memory 12.0%"]
    assert goals.misses(replace(costly, shape=(100, 3_000)), {}) == []


def test_rows_stand_beside_the_faster_flat_peer_of_each_state():
    workload = tiny_workload(ours=(Ours("fitted", True, {"k = 1": goals.Goals(3.0)}),), graph_goals=True)
    records = [
        record("NumPy BLAS", "flat", [[50.0] * 3], [[60.0] * 3]),
        record("FAISS flat", "flat", [[40.0] * 3], [[70.0] * 3]),
        record("FAISS HNSW", "approximate", [[5.0]], shares=[0.0], build_seconds=[1.0]),
        record("hnswlib", "approximate", [[20.0]], build_seconds=[3.0]),
        record(warm=[[10.0, 10.0, 100.0]], cold=[[30.0] * 3], build_seconds=[0.1, 0.1, 0.9], sum_seconds=0.05),
        record("fitted", asked="k = 10"),
    ]
    assert best_flat(records).name == "FAISS flat"
    (found,) = runner.compare(workload, records, "k = 1")
    assert (found.warm.reference_name, found.cold.reference_name) == ("FAISS flat", "NumPy BLAS")
    assert (found.warm.speed_up, found.cold.speed_up) == (4.0, 2.0)
    assert found.warm.p95_ratio == pytest.approx(91.0 / 40.0)
    assert (found.fit_of_sum, found.goals.warm) == (2.0, 3.0)
    graph, build = runner._graph_lines(workload, records)
    # The faster graph is wrong more often than we are, so it is not the rival.
    assert (graph.row, graph.value) == ("ratings 100 x 20,000, against hnswlib at equal recall", 2.0)
    assert build.value == pytest.approx(30.0)


# workloads


def test_a_workload_is_measured_with_peers_and_the_papers_method():
    few = {"minimise": "multiplies", "rescore": False}
    ours = (Ours("fitted", True), Ours("no fit", False, options=few))
    outcome = runner.run_workload(tiny_workload(ours, sigma=25.0), replace(TINY, repeats=6))
    assert [(r.name, r.kind) for r in outcome.records] == [
        ("NumPy BLAS", "flat"),
        ("fitted", "ours"),
        ("no fit", "ours"),
        ("the paper's method", "authors"),
    ]
    for measured in outcome.records:
        assert measured.shape == (30, 200)
        assert measured.recall == 1.0
        assert [len(times) for times in measured.warm] == [6, 6, 6]
        assert [len(times) for times in measured.cold] == [2, 2, 2]
        assert all(value > 0 for times in measured.warm + measured.cold for value in times)
        assert (measured.atom_bytes, measured.sum_seconds > 0) == (4 * 30 * 200, True)
    fitted, unfitted = outcome.records[1:3]
    assert len(fitted.build_seconds) in (1, 3)  # one where the first fit was slow
    assert fitted.extra_bytes > 0
    assert (unfitted.build_seconds, unfitted.extra_bytes) == ([], 0)
    assert unfitted.setting == "minimise='multiplies', rescore=False"
    assert [found.warm.reference_name for found in outcome.rows] == ["NumPy BLAS", "NumPy BLAS"]
    assert [found.extra_bytes is None for found in outcome.rows] == [False, True]


def test_every_k_and_batches_are_checked():
    every = (Asked(), Asked(4), Asked(1, 5), Asked(4, 5))
    outcome = runner.run_workload(tiny_workload((Ours("fitted", True), Ours("no fit", False)), every=every), TINY)
    assert [found.asked for found in outcome.rows[::2]] == ["k = 1", "k = 4", "k = 1, batch of 5", "k = 4, batch of 5"]
    for measured in outcome.records:
        n_requests, n_queries = (1, 5) if "batch" in measured.asked else (3, 3)
        assert (len(measured.warm), len(measured.shares), measured.recall) == (n_requests, n_queries, 1.0)
    with pytest.raises(ValueError, match="a batch of 9 needs as many queries, got 5"):
        runner.run_workload(tiny_workload(every=(Asked(1, 9),)), TINY)


def test_what_is_too_long_for_a_quick_run_is_named():
    outcome = runner.run_workload(tiny_workload(quick=()), TINY)
    assert (outcome.rows, outcome.notes) == ([], ["tiny: not part of a quick run"])
    asked = tiny_workload(every=(Asked(), Asked(2)), quick=(Asked(),)).asked
    assert (asked(TINY), asked(replace(TINY, quick=False))) == ((Asked(),), (Asked(), Asked(2)))


def test_datasets_of_one_query_are_pooled():
    workload = next(workload for workload in WORKLOADS if workload.name.startswith("correlated"))
    instances = []

    def make(scale):
        for seed in range(scale.n_seeds):
            data = datasets.load("correlated_normal_custom", n=20, d=500, seed=seed)
            instances.append(Instance(data.atoms, data.queries, data.queries[0]))
            yield instances[-1]

    outcome = runner.run_workload(replace(workload, make=make, peers=("blas",), sigma=None), TINY)
    assert len(instances) == 2
    for measured in outcome.records:
        assert [len(times) for times in measured.warm] == [8, 8]
        assert len(measured.right) == 2


def test_merging_keeps_every_time_and_the_largest_memory():
    merged = merge(
        [
            record(warm=[[1.0]], cold=[[5.0]], build_seconds=[1.0], extra_bytes=5, sum_seconds=1.0),
            record(warm=[[2.0, 3.0]], cold=[[6.0]], shares=[0.5], build_seconds=[2.0], extra_bytes=9, sum_seconds=3.0),
        ]
    )
    assert (merged.warm, merged.cold, merged.extra_bytes) == ([[1.0], [2.0, 3.0]], [[5.0], [6.0]], 9)
    assert (merged.recall, merged.right, merged.build_median, merged.sum_seconds) == (0.75, [True, False], 1.5, 2.0)


@pytest.mark.parametrize("key", CODES + GRAPHS)
def test_an_approximate_index_gets_the_effort_that_equals_our_recall(key):
    pytest.importorskip(PEERS[key].module)
    workload = replace(tiny_workload(peers=("blas", key)), make=many_queries("normal_custom", 200, 64))
    outcome = runner.run_workload(replace(workload, every=(Asked(), Asked(5))), TINY)
    for blas, found, ours in (outcome.records[:3], outcome.records[3:]):
        assert (found.kind, blas.recall) == ("approximate", 1.0)
        assert found.setting.startswith("effort ")
        assert found.recall >= ours.recall or found.setting.endswith("recall below ours")
        assert len(found.build_seconds) == 1


def test_a_dense_rotation_of_long_atoms_is_left_out_with_its_reason():
    workload = replace(tiny_workload(peers=("blas", "faiss_rabitq")), make=many_queries("ratings", 20, 3_000))
    outcome = runner.run_workload(workload, TINY)
    assert [r.name for r in outcome.records] == ["NumPy BLAS", "fitted"]
    reason = "its rotation is a dense 3,000 x 3,000 matrix"
    assert outcome.notes == [f"tiny: FAISS RaBitQ refined is left out, because {reason}"]


def test_faiss_flat_finds_what_blas_finds():
    pytest.importorskip("faiss")
    outcome = runner.run_workload(tiny_workload(peers=("blas", "faiss_flat")), TINY)
    assert [r.recall for r in outcome.records] == [1.0, 1.0, 1.0]
    assert outcome.records[1].extra_bytes == 30 * 200 * 4


def test_missing_peers_are_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    missing = missing_peers()
    assert "hnswlib" in missing
    assert "blas" not in missing
    outcome = runner.run_workload(tiny_workload(peers=("blas", "hnswlib")), TINY, tuple(missing))
    assert [r.name for r in outcome.records] == ["NumPy BLAS", "fitted"]


def test_slow_peers_sit_out_a_quick_run():
    workload = tiny_workload(slow_peers=("faiss_flat",))

    def names(chosen):
        return [contender.name for contender in runner._contenders(workload, chosen, (), (30, 200), [])]

    assert names(TINY) == ["NumPy BLAS", "fitted"]
    assert names(replace(TINY, quick=False)) == ["NumPy BLAS", "FAISS flat", "fitted"]


def test_every_goal_of_the_workloads_can_be_judged():
    drawn = (*WORKLOADS, *options.option_workloads(), *batches.batch_workloads())
    every = (*drawn, *real_rows.real_workloads(), *real_rows.graph_workloads())
    names = [workload.name for workload in every]
    assert len(set(names)) == len(names)
    keys = {f"{w.name} | {asked} | {ours.label}" for w in every for asked in w.every for ours in w.ours}
    for workload in every:
        assert set(workload.peers + workload.slow_peers) <= set(PEERS)
        assert len({ours.label for ours in workload.ours}) == len(workload.ours)
        asked = {"", *map(str, workload.every)}
        for ours in workload.ours:
            assert set(ours.goals) <= asked
            assert {wanted.share_of for wanted in ours.goals.values()} - {None} <= keys


def test_every_option_and_dtype_has_rows_and_right_answers():
    workloads = options.option_workloads(options.Size(60, 1_500, 1_500))
    missing = tuple(missing_peers())
    found = [each for w in workloads for each in runner.run_workload(w, SOON, missing).rows]
    ways = {each.way for each in found if each.section == "options-plain"}
    assert {f"fitted, {way}" for way in ("epsilon", "budget", "trace", "bernstein", "hoeffding", "after add")} <= ways
    sections = {each.section.removeprefix("options-") for each in found}
    assert {"cosine", "neg_sqeuclidean", "neg_l1", "int8", "float16", "float64", "fortran-order"} <= sections
    assert [each.key for each in found if not each.answers_plausible] == []


def test_every_kind_of_batch_has_rows_and_right_answers():
    workloads = batches.batch_workloads(((10, 10),), ((30, 500),))
    missing = tuple(missing_peers())
    found = [each for w in workloads for each in runner.run_workload(w, SOON, missing).rows]
    sections = {each.section for each in found}
    assert {"batches-small-10x10", "batches-cosine-30x500", "batches-int8-30x500"} <= sections
    assert {each.way for each in found} == {"fitted", "no fit"}
    assert [each.key for each in found if not each.answers_plausible] == []


# real data


def load_drawn(name, *, tiny):
    rng = np.random.default_rng(0)
    if name == "text":
        atoms, queries = (scipy.sparse.random_array((m, 50), density=0.2, format="csr", rng=rng) for m in (40, 6))
        return atoms.astype(np.float32), queries.astype(np.float32)
    atoms = rng.normal(size=(46, 64)).astype(np.float32)
    return atoms[:40], atoms[40:]


def test_real_sets_are_searched_by_rows_and_by_columns(monkeypatch):
    monkeypatch.setattr(real_rows, "load", load_drawn)
    monkeypatch.setattr(real_rows, "SETS", ("images", "text"))
    orders, rows = {}, {}
    for workload in real_rows.real_workloads(tiny=True):
        (instance,) = workload.make(SOON)
        orders[workload.name] = getattr(instance.atoms, "format", None) or instance.atoms.flags.c_contiguous
        quiet = replace(SOON, quick=False)
        rows[workload.name] = runner.run_workload(workload, quiet, tuple(missing_peers())).rows
    assert orders == {
        "real-images": True,
        "real-images-columns": False,
        "real-text": "csr",
        "real-text-columns": "csc",
    }
    every = [f"k = {k}{batch}" for batch in ("", ", batch of 5") for k in (1, 10, 100)]
    assert [each.asked for each in rows["real-images"]] == [asked for asked in every for _ in range(2)]
    assert {each.warm.reference_name for each in rows["real-text"]} == {"scipy.sparse"}
    assert {each.way for each in rows["real-text-columns"]} == {"fitted", "no fit"}
    assert all(each.answers_plausible for found in rows.values() for each in found)
    assert [each.goals.warm for each in rows["real-images"][:4]] == [8.0, None, 5.0, None]


def test_a_set_that_cannot_be_had_is_skipped(monkeypatch):
    def refuse(name, *, tiny):
        raise SourceMissingError("there is no apt-get")

    monkeypatch.setattr(real_rows, "load", refuse)
    outcome = run.sections()["real-kmers"](TINY)
    assert outcome.notes == ["real-kmers: skipped, because there is no apt-get"]


def test_the_chart_shows_what_is_fitted_in_row_order(tmp_path):
    rows = [row(), row(asked="k = 10"), row(asked="k = 100"), row(way="no fit"), row(section="real-images-columns")]
    rows.append(row(section="ratings-4000x6000"))
    assert charts.real_bars(rows) == rows[:2]
    assert charts.draw_real(rows[2:], tmp_path) == []
    pytest.importorskip("matplotlib")
    paths = charts.draw_real(rows, tmp_path)
    assert [path.name for path in paths] == ["speed-up.svg", "speed-up.png"]
    assert all(path.stat().st_size > 1_000 for path in paths)


# the other sections


def test_growth_compares_ours_with_ours():
    outcome = growth.run_growth(TINY, n=20, sizes=(200, 2_000))
    ways = ("layout=coordinates", "no fit")
    assert [line.row for line in outcome.lines] == [
        f"{state} time at d = 2,000 over d = 200, n = 20, {way}, minimise=multiplies, rescore=False"
        for way in ways
        for state in ("warm", "cold")
    ]
    small, _, large, _ = outcome.records
    assert outcome.lines[0].value == large.summary().median / small.summary().median
    assert outcome.lines[1].value == large.summary("cold").median / small.summary("cold").median
    assert [line.n_answers for line in outcome.lines] == [6, 6, 6, 6]


def test_drawn_options_are_answered_rightly_and_shown_from_below():
    outcome = drawn.run_drawn(replace(SOON, repeats=1), count=7, entries=(2e3, 2e4))
    assert [record.name for record in outcome.records] == ["fitted", "NumPy, prepared", "no fit", "NumPy"] * 7
    assert all(all(record.right) for record in outcome.records if record.kind == "ours")
    for way in ("fitted", "no fit"):
        lines = [line for line in outcome.lines if line.row.startswith(f"drawn options, {way}")]
        assert "median of 7" in lines[0].row
        values = [line.value for line in lines[2:]]
        assert values == sorted(values)
        assert lines[0].value >= lines[1].value >= values[0]
    assert "seed" in outcome.notes[0]


@pytest.mark.parametrize("seed", range(12))
def test_numpy_finds_what_is_drawn(seed):
    """Both references answer what is asked; where float32 cannot tell atoms apart, what they find is about as good."""
    one = drawn.draw(np.random.default_rng(seed), (2e3, 2e4))
    truth = drawn._truth(one, one.requests[0])
    best = -np.sort(-truth, axis=1)[:, : one.k]
    for reference in (drawn._prepared(one), drawn._from_the_beginning(one)):
        found = np.asarray(reference(one.requests[0], one.k)).reshape(len(truth), -1)
        got = -np.sort(-np.take_along_axis(truth, found, axis=1), axis=1)
        np.testing.assert_allclose(got, best, rtol=1e-3, atol=1e-3 * np.abs(best).max())


def test_threads_compare_two_with_one():
    outcome = threads.run_threads(TINY, shape=(20, 300), n_batch=4)
    assert [line.row for line in outcome.lines] == [
        "two threads against one: symmetric_normal 20 x 300, k = 10, fitted",
        "two threads against one: symmetric_normal 20 x 300, k = 10, no fit",
        "two threads against one: normal_custom 20 x 300, k = 10, batch of 4, fitted",
        "two threads against one: normal_custom 20 x 300, k = 10, batch of 4, no fit",
    ]
    assert [line.goal.limit for line in outcome.lines] == [1.5, 1.5, 1.8, 1.8]
    one, two = outcome.records[:2]
    assert (one.name, two.name) == ("fitted, n_jobs=1", "fitted, n_jobs=2")
    assert outcome.lines[0].value == one.summary().median / two.summary().median
    assert all(line.recall == 1.0 for line in outcome.lines)


def test_multiplies_beside_published_ones(tmp_path):
    path = tmp_path / "published.csv"
    path.write_text(
        "experiment,dataset,algorithm,n,d,k,epsilon,delta,multiplies,accuracy,naive\n"
        "figure1_and_9_scaling_d,NORMAL_CUSTOM,BanditMIPS,20,3000,1,0.001,0.001,9,1.0,60000\n"
        "figure1_and_9_scaling_d,NORMAL_CUSTOM,BanditMIPS,20,2000,1,0.001,0.001,40000,1.0,40000\n"
        "figure1_and_9_scaling_d,NORMAL_CUSTOM,BoundedME,20,100,1,0.001,0.001,7,1.0,2000\n"
        "figure7_buckets,NORMAL_CUSTOM,BanditMIPS,5000,,1,0.0,0.1,96373,1.0,\n",
        encoding="utf-8",
    )
    points = multiplies.read_points(path)
    assert [(point.d, point.multiplies) for point in points["NORMAL_CUSTOM"]] == [(2_000, 40_000.0), (3_000, 9.0)]
    quick = multiplies.run_multiplies(TINY, path)
    for line, count, way in zip(quick.lines, quick.counts, ("no fit", "fitted"), strict=True):
        assert line.row == f"multiplies, NORMAL_CUSTOM 20 x 2,000, delta = 0.001, {way}"
        assert line.value == pytest.approx(np.mean(count["multiplies"]) / 40_000)
        assert len(count["multiplies"]) == len(count["right"]) == 40
        assert count["fitted"] is (way == "fitted")
    everything = multiplies.run_multiplies(replace(TINY, quick=False), path)
    assert [r["shape"] for r in everything.counts] == 2 * [[20, 2_000]] + 2 * [[20, 3_000]]
    assert goals.verdict(everything.lines[2]) is False


def test_multiplies_are_skipped_where_nothing_is_published(tmp_path):
    outcome = multiplies.run_multiplies(TINY, tmp_path / "nothing.csv")
    assert outcome.lines == []
    assert "skipped" in outcome.notes[0]


def test_grid_shapes():
    assert (1_000, 1_000_000) not in grid.shapes(False)
    assert (100, 1_000_000) in grid.shapes(False)
    assert set(grid.shapes(True)) < set(grid.shapes(False))


# what is written


def test_grid_chart_and_its_frontier(tmp_path):
    outcome = grid.run_grid(TINY, [(10, 50), (10, 100), (20, 50)], ("faiss_flat",))
    sizes_n, sizes_d, speed_ups = charts.speed_up_grid(outcome.records, "fitted")
    assert (sizes_n, sizes_d) == ([10, 20], [50, 100])
    assert np.isnan(speed_ups).tolist() == [[False, False], [False, True]]
    cells = report.grid_cells(outcome.records)
    assert [row[0] for row in cells] == ["n x d", "10 x 50", "10 x 100", "20 x 50"]
    edges = charts._frontier(np.array([[False, True], [False, False]]), np.array([[True, True], [True, False]]))
    assert edges == [((1, 0), (1, 1))]
    pytest.importorskip("matplotlib")
    for path in charts.draw_frontier(outcome.records, tmp_path):
        assert path.stat().st_size > 1_000


def test_tables_begin_with_what_is_behind():
    slow, slower = row(ours=200.0, section="a"), row(ours=50.0, cold=400.0, section="b", n_wrong=1, recall=0.875)
    tables = report.all_tables([row(), slow, slower], [], [], [])
    assert [title for title, _ in tables] == ["Behind the full pass: 2 of 3 rows", "All rows"]
    (head, first, second), every = tables[0][1], tables[1][1]
    assert len(head) == len(first) == len(second)
    assert first[1] == "median 4.0x its time cold; p95 4.0x its p95 cold"
    assert first[2:] == [
        *("50.0", "100 (BLAS)", "2.0x", "0.50x"),
        *("400", "100 (FAISS)", "0.25x", "4.0x"),
        "0.875 (1 of 8 wrong)",
    ]
    assert second[1].startswith("median 2.0x its time warm")
    assert [line[0] for line in every[1:]] == ["genotypes 100 x 20,000, k = 1, fitted"] * 3
    assert [title for title, _ in report.all_tables([row()], [], [], [])] == ["All rows"]


def test_all_rows_show_goals_and_what_the_fit_costs():
    costly = row(goals=goals.Goals(60.0), extra_bytes=800_000, atom_bytes=8_000_000, fit_seconds=0.4, sum_seconds=0.1)
    cells = dict(zip(*report.row_cells([costly]), strict=True))
    assert (cells["goal"], cells["missed"]) == ("60.0x / -", "10.0x warm, not 60.0x")
    assert (cells["extra memory"], cells["fit"], cells["fit/sum"]) == ("0.8 MB (10.0%)", "400.0 ms", "4.0x")


def test_other_figures():
    line = goals.Line("multiplies", goals.Goal("of_published", 0.5), 0.047, 44_397.0, 951_230.0, "published", 1.0, 40)
    _, first = report.line_cells([line])
    assert first == ["multiplies", "44,397", "951,230 (published)", "0.047x", "<= 0.50x", "yes", "1.000"]


def test_tables_are_aligned_and_valid_markdown():
    cells = report.peer_cells([record(setting="layout='full'"), record("NumPy BLAS", "flat", [[5.0]])])
    head, rule, *rows = report.aligned(cells).splitlines()
    assert set(rule) == {"-"}
    # Numbers end where their column's name ends.
    end = head.index("warm us") + len("warm us")
    assert [each[:end].rsplit(maxsplit=1)[-1] for each in rows] == ["15.0", "5.0"]
    lines = report.markdown(cells).splitlines()
    assert {line.count("|") for line in lines} == {len(cells[0]) + 1}
    assert set(lines[1]) == set("| -")


def test_sections_are_kept_as_they_were_measured(tmp_path):
    measured = record(warm=[[10.0, 30.0], [20.0]], shares=[1.0, np.float64(0.5)], build_seconds=[0.5], extra_bytes=7)
    line = goals.Line("growth", goals.Goal("growth", 1.3), 1.1, 2.0, 1.0, "ours", 1.0, 8)
    outcome = runner.Outcome([row(goals=goals.Goals(3.0))], [line], [measured], [{"multiplies": [3]}], ["a note"])
    path = results.write_section(tmp_path, "some", outcome, FACTS, quick=True)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["machine"] == FACTS
    assert written["records"][0]["warm"] == [[10.0, 30.0], [20.0]]
    assert written["records"][0]["summaries"]["warm"]["median"] == 20.0
    assert results.read_sections(tmp_path) == {"some": results.Kept(outcome, FACTS, True)}
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.write_section(tmp_path, "none", runner.Outcome(counts=[{"value": math.nan}]), FACTS, quick=True)


def test_docs_are_written_between_their_marks(tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "performance.md"
    page.write_text(f"before\n\n{docs_page.BEGIN}\nwhat was there\n{docs_page.END}\n\nafter\n", encoding="utf-8")
    behind = row(ours=200.0, section="small-10x10", work="small")
    kept = {
        "real-genotypes": results.Kept(runner.Outcome([row()]), FACTS, False),
        "small-10x10": results.Kept(runner.Outcome([behind]), FACTS, True),
    }
    for _ in range(2):  # the second time changes nothing
        assert docs_page.update_docs(kept, tmp_path) == [page, tmp_path / "speed-up.svg"]
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"before\n\n{docs_page.BEGIN}\n\nFull run, 2026-01-01")
        assert text.endswith(f"{docs_page.END}\n\nafter\n")
        assert "what was there" not in text
        assert "Sections: small-10x10." in text
        assert text.index("Behind the full pass: 1 of 2 rows") < text.index("### Real data") < text.index("### Drawn")
    assert {path.name for path in tmp_path.iterdir()} == {"performance.md", "speed-up.svg"}
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold the marks"):
        docs_page.update_docs(kept, tmp_path)


def test_the_page_of_the_documentation_has_the_marks():
    text = (docs_page.DOCS / "performance.md").read_text(encoding="utf-8")
    assert (text.count(docs_page.BEGIN), text.count(docs_page.END)) == (1, 1)


def test_machine_facts():
    facts = machine.describe_machine(threads=1)
    json.dumps(facts, allow_nan=False)
    assert {"cpu", "cores", "versions", "blas", "threads", "commit", "date", "load_average"} <= set(facts)
    assert facts["versions"]["numpy"] == np.__version__
    assert machine.load_warning({**facts, "load_average": [0.5, 9.0, 9.0]}) is None
    assert "WARNING: the load average was 0.6" in machine.load_warning({**facts, "load_average": [0.6, 0.0, 0.0]})


# the command


def test_only_chooses_rows_by_the_beginning_of_their_name():
    every = run.sections()
    assert list(run.choose(every, None)) == list(every)
    assert list(run.choose(every, ["ratings-1", "grid"])) == ["ratings-1000x100000", "ratings-100x1000000", "grid"]
    assert all(name.startswith("real-") for name in run.choose(every, ["real"]))
    assert len(run.choose(every, ["real"])) == 14
    with pytest.raises(ValueError, match="no row is called 'nothing'; there are real-genotypes"):
        run.choose(every, ["nothing"])


def test_options(capsys):
    chosen = command.parse(["--quick", "--only", "small", "grid", "--out", "here", "--threads", "2"])
    assert not chosen.update_docs
    assert command.parse(["--update-docs"]).update_docs
    assert (chosen.quick, chosen.only, chosen.out, chosen.threads) == (True, ["small", "grid"], Path("here"), 2)
    with pytest.raises(SystemExit):
        command.parse(["--threads", "0"])
    assert "--threads must be at least 1, got 0" in capsys.readouterr().err


def test_a_run_writes_everything_and_survives_a_section_that_fails(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")

    def fails(scale):
        raise RuntimeError("no such luck")

    chosen = {"tiny": lambda scale: runner.run_workload(tiny_workload(), TINY), "broken": fails}
    monkeypatch.setattr(run, "sections", lambda missing: chosen)
    assert run.run(quick=True, out=tmp_path, only=None, threads=1) == 1
    written = capsys.readouterr()
    assert "ratings 30 x 200, k = 1, fitted" in written.out
    assert "broken ... failed" in written.out
    assert "no such luck" in written.err
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| ratings 30 x 200, k = 1, fitted |" in page
    assert "- broken: failed" in page
    kept = results.read_sections(tmp_path / "raw")
    assert [measured.name for measured in kept["tiny"].outcome.records] == ["NumPy BLAS", "fitted"]
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "table.md"}
    assert run.run(quick=True, out=tmp_path, only=["else"], threads=1) == 2
    monkeypatch.setattr(run, "sections", lambda: chosen)
    monkeypatch.setattr(run, "update_docs", lambda kept: list(kept))
    capsys.readouterr()
    assert run.write_docs(tmp_path) == 0
    assert capsys.readouterr().out == "written: tiny\n"
    assert run.write_docs(tmp_path / "nowhere") == 2


# atoms on disk

SMALL = scale.Size(20, 150_000, 2, 2, 10**12, 300, 500, 1 << 21)


@pytest.mark.skipif(not hasattr(scale.os, "posix_fadvise"), reason="the system's cache cannot be emptied here")
def test_ways_of_searching_files_agree_and_count_their_bytes(tmp_path):
    path = tmp_path / "atoms.npy"
    scale.write_atoms(path, SMALL.n, SMALL.d)
    atoms = np.load(path)
    queries = np.stack([scale.make_query(number, SMALL.d) for number in range(2)])
    truth = (queries @ atoms.T).argmax(axis=1).tolist()
    packing = scale.pack(path, SMALL)
    packed, chunked = scale.packed_path(path), tmp_path / "atoms.zarr"
    scale.write_zarr(chunked, path, SMALL.n, SMALL.d)
    results = {
        "npy, scan": scale.scan(path, SMALL),
        "npy, no index": scale.search_without_index(path, SMALL),
        "npy, index": scale.search_with_index(path, SMALL),
        "npy, saved index": scale.search_saved(path, SMALL),
        "zarr, index": scale.search_with_index(chunked, SMALL),
        "packed, no index": scale.search_without_index(packed, SMALL),
        "packed, index": scale.search_with_index(packed, SMALL),
    }
    assert [found["indices"] for found in results.values()] == [truth] * 7
    assert max(results["npy, index"]["bytes"]) < 0.2 * atoms.nbytes < max(results["npy, no index"]["bytes"])
    for found in results.values():
        found.setdefault("resident", scale.most_resident())
        assert scale._row("x", found, results["npy, scan"], truth, SMALL).startswith("x   ")
    by_zarr = {**scale.scan(chunked, SMALL), "resident": 1}
    assert by_zarr["indices"] == truth
    assert "fit" in scale._row("x", results["zarr, index"], by_zarr, truth, SMALL)
    assert f"{packing['n_blocks']} blocks" in scale._row_of_packing({**packing, "resident": 1}, SMALL)
    assert atoms.nbytes < packing["written"] < 1.2 * atoms.nbytes
    results["packed, one round"] = scale.search_one_round(packed, SMALL)
    results["sparse"] = scale.search_sparse(path, SMALL)
    assert results["sparse"]["right"]
    assert scale._judge(results, SMALL) == []
    limit = results["npy, index"]["resident"] - results["npy, index"]["kept"] - 1
    assert "MB beyond what it keeps" in scale._judge(results, replace(SMALL, most_resident=limit))[0]
    twice = {**results, "npy, no index": {**results["npy, no index"], "bytes": [2 * atoms.nbytes]}}
    assert scale._judge(twice, SMALL) == ["npy, no index read 2.00 times the file"]
    # Nothing is asked of files that were not written.
    assert scale._judge({name: found for name, found in results.items() if name[:3] in ("npy", "spa")}, SMALL) == []
    results["npy, saved index"]["bytes"] = [atoms.nbytes // 5]
    assert scale._judge(results, SMALL) == ["npy, saved index read 4.0 rows of the file, more than 2"]
    results["packed, one round"]["bytes"] = [atoms.nbytes // 100]
    assert any("round one read 1.00% of the packed file" in text for text in scale._judge(results, SMALL))
    results["npy, index"]["indices"] = [-1, -1]
    assert any("npy, index found [-1, -1]" in text for text in scale._judge(results, SMALL))


def test_a_scale_run_has_its_sizes():
    assert 4 * scale.FULL.n * scale.FULL.d == 16_000_000_000
    assert 4 * scale.QUICK.n * scale.QUICK.d == 524_288_000
