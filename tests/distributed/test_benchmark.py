"""The benchmarks of clusters, on matrices that take no time."""

import sys
from pathlib import Path

import pytest

from distributed import Client

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import cluster, simulate


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(cluster, "N_QUERIES", 4)
    monkeypatch.setattr(cluster, "N_REPEATS", 1)
    monkeypatch.setattr(cluster, "SEARCHES", ((1, "time"), (1, "multiplies")))
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as connected:
        yield connected


def test_figures_are_printed_beside_their_goals(client, monkeypatch, tmp_path, capsys):
    class Connected:
        def __enter__(self):
            return client

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(cluster, "cluster_of", lambda n_workers: Connected())
    data = cluster.make_genotypes(str(tmp_path / "atoms.npy"), 60, 800)
    rows = list(cluster.measure(data, (1, 2)))
    ways = ["array", "file", "1 worker", "dask.array, 1", "2 workers", "dask.array, 2"]
    assert [row.way for row in rows] == [way for way in ways for _ in range(1 if way.startswith("dask") else 2)]
    assert all(row.n_right == 4 for row in rows)
    assert all(
        row.bytes_exchanged > 0 and row.n_exchanges >= 1 for row in rows if row.way.endswith(("worker", "workers"))
    )
    cluster.print_rows(rows, 800)
    shown = capsys.readouterr().out
    two = next(row for row in rows if row.minimise == "multiplies" and row.way == "2 workers")
    ratio = f"{two.beside / two.seconds:.2f}x"
    assert f"| 60 | 1 | multiplies | 2 workers | {two.seconds / 4 * 1e3:.2f} | {ratio} | 4" in shown
    assert "times as fast as an array (goal 1.6), at most" in shown


CONSTANTS = simulate.Constants(
    query=1e-3, atom=1e-7, atom_far=2e-7, hop=5e-3, task=1e-3, call_hop=2e-3, call=1e-4, byte=1e-9,
    report_bytes=200, merge=1e-6, n_exchanges=3, spread=0.1,
)  # fmt: skip


def test_the_model_adds_up_and_says_who_waits_for_whom():
    alone = simulate.predict(CONSTANTS, 1e6, 10)
    assert alone.working == pytest.approx(1e-3 + 1e5 * (1e-7 + 1e-7 * 0.6))
    tasks, calls = 10 * 1e-3 + 5e-3, 3 * (10 * 1e-4 + 2e-3)
    assert alone.scheduling == pytest.approx((tasks + calls) / simulate.N_QUERIES)
    assert alone.exchanged == 3 * 200 * 10
    many = simulate.predict(CONSTANTS, 1e6, 1_000)
    assert many.working < alone.working
    assert many.scheduling > alone.scheduling
    assert simulate.predict(CONSTANTS, 1e6, 1_000, tree=True).merging < many.merging / 10
    slow = simulate.predict(CONSTANTS, 1e6, 10, trouble=simulate.Trouble(slowest=3.0))
    assert slow.working + slow.waiting > 2.5 * alone.working
    stalls = simulate.predict(CONSTANTS, 1e6, 1_000, trouble=simulate.Trouble(stall_rate=1e-2, stall=5.0))
    assert stalls.waiting > 0.9 * 5.0 / simulate.N_QUERIES
    # A shard of so many atoms cannot remember 64 races at once: the exchanges are those of fewer queries.
    assert simulate.predict(CONSTANTS, 1e10, 1_000).scheduling > 20 * many.scheduling


def test_the_model_is_measured_and_drawn(client, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(simulate, "D", 600)
    monkeypatch.setattr(simulate, "N_QUERIES", 4)
    for name in ("_N_DRAWS", "_N_HOPS", "_N_TASKS"):
        monkeypatch.setattr(simulate, name, 3)
    constants = simulate.measure(client, (40, 80), n_repeats=1)
    assert constants.hop > 0.0
    assert constants.task > 0.0
    assert constants.call > 0.0
    assert constants.report_bytes > 50
    assert 1 <= constants.n_exchanges <= 5
    simulate.print_check(client, constants, (50,), n_repeats=1)
    simulate.print_predictions(constants)
    shown = capsys.readouterr().out
    assert "| 50 | 2 |" in shown
    assert "| 1e+10 | 1,000 |" in shown
    simulate.draw(constants, str(tmp_path / "model.svg"))
    assert (tmp_path / "model.svg").read_text().startswith("<?xml")
