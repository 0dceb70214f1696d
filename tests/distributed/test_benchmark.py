"""The benchmarks of clusters, on matrices that take no time."""

import sys
from pathlib import Path

import pytest

from distributed import Client

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import cluster


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
    ways = ["one process", "1 worker", "dask.array, 1", "2 workers", "dask.array, 2"]
    assert [row.way for row in rows] == [way for way in ways for _ in range(1 if way.startswith("dask") else 2)]
    assert all(row.n_right == 4 for row in rows)
    assert all(
        row.bytes_exchanged > 0 and row.n_exchanges >= 1 for row in rows if row.way.endswith(("worker", "workers"))
    )
    cluster.print_rows(rows, 800)
    shown = capsys.readouterr().out
    one, two = (row for row in rows if row.minimise == "multiplies" and row.way in ("one process", "2 workers"))
    assert (
        f"| 60 | 1 | multiplies | 2 workers | {two.seconds / 4 * 1e3:.2f} | {one.seconds / two.seconds:.2f}x | 4"
        in shown
    )
    assert "times as fast at best (goal 1.6), at most" in shown
