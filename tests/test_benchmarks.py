"""The benchmark's own functions, on tiny workloads: what it computes from times, never how long anything takes."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from banditmips import datasets

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import __main__ as command
from benchmarks import charts, goals, grid, growth, machine, measure, multiplies, report, run, runner, scale, truth
from benchmarks.ours import Ours
from benchmarks.peers import GRAPHS, PEERS, missing_peers
from benchmarks.records import Record, best_flat, merge
from benchmarks.workloads import WORKLOADS, Instance, Scale, Workload, many_queries

TINY = Scale(quick=True, n_queries=3, repeats=2, n_seeds=2, budget=600.0)
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


def record(name="fitted", kind="ours", times=((10.0, 20.0),), right=(True,), **others):
    return Record("section", (100, 20_000), name, kind, [list(t) for t in times], list(right), **others)


def tiny_workload(ours=None, peers=("blas",), **others):
    ours = (Ours("fitted", True, (goals.Goal("speed_up", 2.0),)),) if ours is None else ours
    return Workload("tiny", "ratings", many_queries("ratings", 30, 200), ours, peers, **others)


# timing


def test_summary_takes_all_times_of_all_requests():
    summary = measure.summarise([[1.0, 2.0, 3.0], [4.0, 5.0], list(np.arange(6.0, 102.0))])
    assert (summary.median, summary.q25, summary.q75, summary.n_times) == (51.0, 26.0, 76.0, 101)
    assert summary.p95 == 96.0


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.001, (10, 5)), (0.03, (10, 3)), (0.1, (10, 1)), (0.25, (4, 1)), (7.0, (1, 1)), (0.0, (10, 5))],
)
def test_slow_ways_get_fewer_repeats_then_fewer_requests(seconds, expected):
    assert measure.affordable_runs(seconds, n_requests=10, repeats=5, budget=1.0) == expected


def test_blocks_are_interleaved_and_begin_with_an_untimed_request():
    calls = []

    def entrant(name):
        def search(request):
            calls.append((name, int(request[0])))
            return request

        return measure.Entrant(name, search, [np.array([1]), np.array([2])], np.array([0]))

    both = [entrant("a"), entrant("b")]
    measure.measure(both, repeats=2, budget=60.0)
    blocks = [(name, request) for _ in range(2) for name in "ab" for request in (0, 1, 2)]
    assert calls == [("a", 0), ("a", 1), ("b", 0), ("b", 1), *blocks]
    for measured in both:
        assert [len(times) for times in measured.times] == [2, 2]
        assert [[int(found[0]) for found in repeats] for repeats in measured.answers] == [[1, 1], [2, 2]]


# right answers


def test_exact_scores_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(50, 30)).astype("float32"), rng.normal(size=(4, 30)).astype("float32")
    monkeypatch.setattr(truth, "_BLOCK_ENTRIES", 200)
    expected = queries.astype(np.float64) @ atoms.astype(np.float64).T
    np.testing.assert_allclose(truth.exact_scores(atoms, queries), expected, rtol=1e-12)


def test_an_answer_is_right_if_it_ties_with_the_best():
    scores = np.array(
        [[1.0, 3.0, 3.0 - 1e-6], [-5.0, -4.0, -4.0001], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]
    )
    right = truth.right_answers(np.array([2, 2, -1, 0, 3]), scores)
    assert right.tolist() == [True, False, False, True, False]
    with pytest.raises(ValueError, match="ids must hold one atom for each of the 5 queries"):
        truth.right_answers(np.array([0, 1]), scores)


def test_a_query_counts_as_right_only_if_every_repeat_was():
    scores = [np.array([[0.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    answers = [[np.array([1]), np.array([0])], [np.array([[0], [1]])]]
    assert runner.check_answers(answers, scores) == [False, True, True]


def test_wrong_answers_are_judged_by_what_delta_explains():
    assert truth.plausible([True] * 10, 0.0)
    assert truth.plausible([True] * 63 + [False], 1e-3)
    assert not truth.plausible([True] * 62 + [False] * 2, 1e-3)
    assert truth.plausible([True] * 80 + [False] * 10, 0.1)


# goals


@pytest.mark.parametrize(
    ("figure", "limit", "value", "reached", "text"),
    [
        ("speed_up", 100.0, 100.0, True, "100x"),
        ("speed_up", 100.0, 99.9, False, "100x"),
        ("speed_up", 2_000.0, 3e4, True, "2,000x"),
        ("of_reference", 1.1, 1.05, True, "<= 1.10x its time"),
        ("p95_of_reference", 1.1, 1.2, False, "<= 1.10x its time (p95)"),
        ("added_us", 20.0, 25.0, False, "<= +20.0 us"),
        ("growth", 1.3, 1.3, True, "<= 1.30x"),
        ("of_published", 0.5, 0.6, False, "<= 0.50x"),
        ("of_atoms", 0.1, 0.09, True, "<= 10.0 %"),
        ("speed_up", None, 5.0, None, "-"),
    ],
)
def test_goals(figure, limit, value, reached, text):
    goal = goals.Goal(figure, limit)
    assert goal.reached_by(value) is reached
    assert str(goal) == text


def test_a_fast_wrong_answer_reaches_no_goal():
    line = goals.Line("row", goals.Goal("speed_up", 10.0), 50.0)
    assert goals.verdict(line) is True
    assert goals.verdict(replace(line, answers_plausible=False)) is False
    assert goals.verdict(replace(line, goal=goals.Goal("speed_up"))) is None


def test_figures_come_from_medians_and_the_faster_flat_peer():
    every = (
        goals.Goal("speed_up", 3.0),
        goals.Goal("of_reference"),
        goals.Goal("p95_of_reference"),
        goals.Goal("added_us"),
    )
    workload = tiny_workload(ours=(Ours("fitted", True, every),), graph_goals=True)
    records = [
        record("NumPy BLAS", "flat", [[50.0, 50.0, 50.0]]),
        record("FAISS flat", "flat", [[40.0, 40.0, 40.0]]),
        record("FAISS HNSW", "graph", [[5.0]], right=[False], build_seconds=[1.0]),
        record("hnswlib", "graph", [[20.0]], build_seconds=[3.0]),
        record(times=[[10.0, 10.0, 100.0]], build_seconds=[0.1, 0.1, 0.9], extra_bytes=1_000),
    ]
    assert best_flat(records).name == "FAISS flat"
    *compared, graph, build = runner.compare(workload, records)
    assert [line.value for line in compared] == pytest.approx([4.0, 0.25, 91.0 / 40.0, -30.0])
    assert {line.row for line in compared} == {"ratings 100 x 20,000, fitted"}
    assert compared[0].p95_ratio == pytest.approx(91.0 / 40.0)
    # The faster graph is wrong more often than we are, so it is not the rival.
    assert (graph.row, graph.value) == ("ratings 100 x 20,000, against hnswlib at equal recall", 2.0)
    assert build.value == pytest.approx(30.0)
    assert [goals.verdict(line) for line in (compared[0], graph, build)] == [True, True, False]


def test_memory_is_that_of_the_worst_index_without_a_copy():
    records = [
        record(extra_bytes=400_000),
        record("layout=full", extra_bytes=9_000_000, setting="layout='full'"),
        record("FAISS flat", "flat", extra_bytes=8_000_000),
        replace(record(extra_bytes=10**9), shape=(100, 5_000)),
    ]
    line = report.memory_line(records)
    assert line.value == pytest.approx(0.05)
    assert goals.verdict(line) is True
    assert report.memory_line(records[1:]) is None


# workloads


def test_a_workload_is_measured_with_peers_and_the_papers_method():
    ours = (Ours("fitted", True), Ours("no fit", False, options={"rescore": False}))
    outcome = runner.run_workload(tiny_workload(ours, sigma=25.0), TINY)
    assert [(r.name, r.kind) for r in outcome.records] == [
        ("NumPy BLAS", "flat"),
        ("fitted", "ours"),
        ("no fit", "ours"),
        ("the paper's method", "authors"),
    ]
    for measured in outcome.records:
        assert measured.shape == (30, 200)
        assert measured.recall == 1.0
        assert [len(times) for times in measured.times] == [2, 2, 2]
        assert all(value > 0 for times in measured.times for value in times)
    fitted, unfitted = outcome.records[1:3]
    assert len(fitted.build_seconds) in (1, 3)  # one where the first fit was slow
    assert fitted.extra_bytes > 0
    assert (unfitted.build_seconds, unfitted.extra_bytes, unfitted.setting) == ([], 0, "rescore=False")
    assert [line.reference_name for line in outcome.lines] == ["NumPy BLAS", "NumPy BLAS"]


def test_batches_are_one_request_with_many_answers():
    data = datasets.load("ratings", n=30, d=200, n_queries=5)

    def make(scale):
        yield Instance(data.atoms, [data.queries], data.queries)

    outcome = runner.run_workload(Workload("batch", "batch", make, (Ours("fitted", True),), ("blas",)), TINY)
    assert [(len(r.times), len(r.right), r.recall) for r in outcome.records] == [(1, 5, 1.0)] * 2


def test_datasets_of_one_query_are_pooled():
    workload = next(workload for workload in WORKLOADS if workload.name.startswith("correlated"))
    instances = []

    def make(scale):
        for seed in range(scale.n_seeds):
            data = datasets.load("correlated_normal_custom", n=20, d=500, seed=seed)
            instances.append(Instance(data.atoms, [data.queries[0]], data.queries[0]))
            yield instances[-1]

    outcome = runner.run_workload(replace(workload, make=make, peers=("blas",), sigma=None), TINY)
    assert len(instances) == 2
    for measured in outcome.records:
        assert [len(times) for times in measured.times] == [8, 8]
        assert len(measured.right) == 2


def test_merging_keeps_every_time_and_the_largest_memory():
    merged = merge(
        [
            record(times=[[1.0]], build_seconds=[1.0], extra_bytes=5),
            record(times=[[2.0, 3.0]], right=[False], build_seconds=[2.0], extra_bytes=9),
        ]
    )
    assert (merged.times, merged.right, merged.extra_bytes) == ([[1.0], [2.0, 3.0]], [True, False], 9)
    assert (merged.recall, merged.build_median) == (0.5, 1.5)


@pytest.mark.parametrize("key", GRAPHS)
def test_an_approximate_index_gets_the_effort_that_equals_our_recall(key):
    pytest.importorskip(PEERS[key].module)
    workload = replace(tiny_workload(peers=("blas", key)), make=many_queries("normal_custom", 200, 64))
    outcome = runner.run_workload(workload, TINY)
    blas, graph, ours = outcome.records
    assert (graph.kind, blas.recall) == ("graph", 1.0)
    assert graph.setting.startswith("effort ")
    assert graph.recall >= ours.recall or graph.setting.endswith("recall below ours")
    assert len(graph.build_seconds) == 1


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
    assert [c.name for c in runner._contenders(workload, TINY, ())] == ["NumPy BLAS", "fitted"]
    full = replace(TINY, quick=False)
    assert [c.name for c in runner._contenders(workload, full, ())] == ["NumPy BLAS", "FAISS flat", "fitted"]


def test_every_goal_of_the_workloads_can_be_judged():
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    for workload in WORKLOADS:
        assert set(workload.peers + workload.slow_peers) <= set(PEERS)
        assert len({ours.label for ours in workload.ours}) == len(workload.ours)
        assert {goal.figure for ours in workload.ours for goal in ours.goals} <= set(goals.FIGURES)


# the other sections


def test_growth_compares_ours_with_ours():
    outcome = growth.run_growth(TINY, n=20, sizes=(200, 2_000))
    assert [line.row for line in outcome.lines] == [
        "time at d = 2,000 over d = 200, n = 20, fitted, rescore=False",
        "time at d = 2,000 over d = 200, n = 20, no fit, rescore=False",
    ]
    small, _, large, _ = outcome.records
    assert outcome.lines[0].value == large.summary.median / small.summary.median
    assert [line.n_answers for line in outcome.lines] == [6, 6]


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
    for line, row, way in zip(quick.lines, quick.rows, ("no fit", "fitted"), strict=True):
        assert line.row == f"multiplies, NORMAL_CUSTOM 20 x 2,000, delta = 0.001, {way}"
        assert line.value == pytest.approx(np.mean(row["multiplies"]) / 40_000)
        assert len(row["multiplies"]) == len(row["right"]) == 40
        assert row["fitted"] is (way == "fitted")
    full = multiplies.run_multiplies(replace(TINY, quick=False), path)
    assert [r["shape"] for r in full.rows] == 2 * [[20, 2_000]] + 2 * [[20, 3_000]]
    assert goals.verdict(full.lines[2]) is False


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


def test_speed_up_chart_shows_lines_about_the_reference_alone(tmp_path):
    pytest.importorskip("matplotlib")
    slow = goals.Line("slow", goals.Goal("of_reference", 1.1), 1.25, reference_name="NumPy BLAS")
    assert charts._bar(slow) == ("slow", 0.8, 1 / 1.1, False)
    assert charts._bar(replace(slow, reference_name="hnswlib")) is None
    assert charts._bar(replace(slow, goal=goals.Goal("growth", 1.3))) is None
    fast = goals.Line("fast", goals.Goal("speed_up", 100.0), 200.0, reference_name="FAISS flat")
    paths = charts.draw_speed_ups([slow, fast], tmp_path)
    assert [path.suffix for path in paths] == [".svg", ".png"]
    assert all(path.stat().st_size > 1_000 for path in paths)
    assert charts.draw_speed_ups([], tmp_path) == []


def test_main_table():
    lines = [
        goals.Line(
            "ratings",
            goals.Goal("speed_up", 100.0),
            123.4,
            ours=80.54,
            reference=9_938.0,
            reference_name="NumPy BLAS",
            p95_ratio=0.02345,
            recall=0.984375,
            n_answers=64,
            extra_bytes=12_400_000,
            fit_seconds=0.0487,
        ),
        goals.Line("memory", goals.Goal("of_atoms", 0.1), 0.25),
    ]
    header, first, second = report.main_cells(lines)
    assert len(header) == len(first) == len(second)
    assert first == [
        "ratings",
        "80.5",
        "9,938 (NumPy BLAS)",
        "123x",
        "100x",
        "yes",
        "0.0234",
        "0.984 (1 of 64 wrong)",
        "12.4 MB",
        "48.7 ms",
    ]
    assert second == ["memory", "-", "-", "25.0 %", "<= 10.0 %", "no", "-", "-", "-", "-"]


def test_tables_are_aligned_and_valid_markdown():
    cells = report.peer_cells([record(setting="layout='full'"), record("NumPy BLAS", "flat", [[5.0]])])
    head, rule, *rows = report.aligned(cells).splitlines()
    assert set(rule) == {"-"}
    # Numbers end where their column's name ends.
    end = head.index("median us") + len("median us")
    assert [row[:end].rsplit(maxsplit=1)[-1] for row in rows] == ["15.0", "5.0"]
    lines = report.markdown(cells).splitlines()
    assert {line.count("|") for line in lines} == {len(cells[0]) + 1}
    assert set(lines[1]) == set("| -")


def test_json_rows_are_valid_and_hold_what_was_measured(tmp_path):
    path = tmp_path / "raw.jsonl"
    measured = record(times=[[10.0, 30.0], [20.0]], right=[np.True_, np.False_], build_seconds=[0.5], extra_bytes=7)
    report.write_rows(path, [measured.to_json()], FACTS)
    report.write_rows(path, [{"record": "multiplies", "multiplies": [3]}], FACTS)
    first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert first["machine"] == second["machine"] == FACTS
    assert first["times"] == [[10.0, 30.0], [20.0]]
    assert (first["median_us"], first["recall"], first["n_times"]) == (20.0, 0.5, 3)
    assert first["right"] == [True, False]
    assert first["shape"] == [100, 20_000]
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_rows(path, [{"value": math.nan}], FACTS)


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
    with pytest.raises(ValueError, match="no row is called 'nothing'; there are ratings-4000x6000"):
        run.choose(every, ["nothing"])


def test_options(capsys):
    options = command.parse(["--quick", "--only", "small", "grid", "--out", "here", "--threads", "2"])
    assert (options.quick, options.only, options.out, options.threads) == (True, ["small", "grid"], Path("here"), 2)
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
    assert "ratings 30 x 200, fitted" in written.out
    assert "broken ... failed" in written.out
    assert "no such luck" in written.err
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| ratings 30 x 200, fitted |" in page
    assert "- broken: failed" in page
    rows = [json.loads(line) for line in (tmp_path / "raw.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["name"] for row in rows] == ["NumPy BLAS", "fitted"]
    assert {path.name for path in tmp_path.iterdir()} == {"raw.jsonl", "table.md", "speed-up.svg", "speed-up.png"}
    assert run.run(quick=True, out=tmp_path, only=["else"], threads=1) == 2


# atoms on disk

SMALL = scale.Size(20, 150_000, 2, 10**12, 300, 500, 1 << 20)


@pytest.mark.skipif(not hasattr(scale.os, "posix_fadvise"), reason="the system's cache cannot be emptied here")
def test_ways_of_searching_files_agree_and_count_their_bytes(tmp_path):
    path = tmp_path / "atoms.npy"
    scale.write_atoms(path, SMALL.n, SMALL.d)
    atoms = np.load(path)
    queries = np.stack([scale.make_query(number, SMALL.d) for number in range(2)])
    truth = (queries @ atoms.T).argmax(axis=1).tolist()
    packing = scale.pack(path, SMALL)
    packed = scale.packed_path(path)
    results = {
        "npy, scan": scale.scan(path, SMALL),
        "npy, no index": scale.search_without_index(path, SMALL),
        "npy, index": scale.search_with_index(path, SMALL),
        "packed, no index": scale.search_without_index(packed, SMALL),
        "packed, index": scale.search_with_index(packed, SMALL),
    }
    assert [found["indices"] for found in results.values()] == [truth] * 5
    assert max(results["npy, index"]["bytes"]) < 0.2 * atoms.nbytes < max(results["npy, no index"]["bytes"])
    for found in results.values():
        found["resident"] = scale.most_resident()
        assert scale._row("x", found, results["npy, scan"], SMALL).startswith("x   ")
    assert f"{packing['n_blocks']} blocks" in scale._row_of_packing({**packing, "resident": 1}, SMALL)
    assert atoms.nbytes < packing["written"] < 1.2 * atoms.nbytes
    results["packed, one round"] = scale.search_one_round(packed, SMALL)
    results["sparse"] = scale.search_sparse(path, SMALL)
    assert results["sparse"]["right"]
    missed = scale._judge(results, SMALL)
    assert len(missed) == 1
    assert "the index read" in missed[0]  # one atom of 20 is more than 2 %
    results["packed, one round"]["bytes"] = [atoms.nbytes // 100]
    assert any("round one read 1.00% of the packed file" in text for text in scale._judge(results, SMALL))
    results["npy, index"]["indices"] = [-1, -1]
    assert any("npy, index found [-1, -1]" in text for text in scale._judge(results, SMALL))


def test_a_scale_run_has_its_sizes():
    assert 4 * scale.FULL.n * scale.FULL.d == 16_000_000_000
    assert 4 * scale.QUICK.n * scale.QUICK.d == 524_288_000
