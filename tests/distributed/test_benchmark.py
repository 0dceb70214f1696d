"""The benchmark of clusters, on matrices that take no time."""

import sys
from pathlib import Path

import pytest

from distributed import Client

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import cluster


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(cluster, "N_QUERIES", 4)
    monkeypatch.setattr(cluster, "PAPER_QUERIES", 4)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as connected:
        yield connected


def test_figures_are_printed_beside_their_goals(client, capsys):
    rows = list(cluster.compare(client, "ratings", 60, 800, (1, 2)))
    assert [(row.k, row.rescore) for row in rows] == [(1, False), (1, True), (2, False), (2, True)]
    assert all(row.n_same == row.n_right == 4 for row in rows)
    assert all(row.ratio == row.multiplies_of_two / row.multiplies_of_one for row in rows)
    cluster.print_rows(rows, 60, 800)
    atoms, queries = cluster.normal_custom(64, 600, 4, seed=0)
    cluster.print_paper_row(client, "normal_custom", atoms, queries, n_shards=2)
    shown = capsys.readouterr().out
    assert f"largest ratio {max(row.ratio for row in rows):.2f} (goal at most 1.5); same answers in 4 of 4" in shown
    assert "| normal_custom | 64 x 600 | 2 | 4 of 4 |" in shown
