"""The planner's decisions in words: `BanditMIPS.explain`, the trace, and the command."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips.cli import app
from banditmips.race.costs import Costs, _parse
from banditmips.race.planner import plan_query


@pytest.fixture
def even():
    rng = np.random.default_rng(0)
    return rng.uniform(1.0, 2.0, size=(300, 20_000)).astype(np.float32), rng.uniform(1.0, 2.0, 20_000)


def test_small_matrices_go_to_blas_and_large_ones_race():
    costs = Costs()
    assert plan_query(costs, 10, 10, "cache", False, True).way == "blas"
    assert plan_query(costs, 4_000, 6_000, "cache", False, True).way == "cache"
    assert plan_query(costs, 1_000, 100_000, "gather", False, True).way == "gather"


def test_a_matrix_in_the_cache_is_cheap_to_multiply():
    """What a race would save on a matrix from memory, it does not on one that is near."""
    costs = Costs()
    assert costs.stream_of(1_000_000) == costs.near_stream
    assert costs.near_stream < costs.stream_of(4_000_000) < costs.stream
    assert costs.stream_of(100_000_000) == costs.stream
    assert plan_query(costs, 100, 10_000, "gather", False, True).way == "blas"
    assert plan_query(replace(costs, near_stream=0.14), 100, 10_000, "gather", False, True).way == "blas"
    assert plan_query(costs, 100, 10_000, "cache", False, True).way == "cache"
    assert plan_query(costs, 1_600, 943, "gather", False, True).way == "blas"


def test_without_rescoring_nothing_goes_to_blas_at_once():
    assert plan_query(Costs(), 10, 10, "cache", False, False).way == "cache"


def test_costs_decide():
    slow_gather = Costs(gather=1e6)
    assert plan_query(slow_gather, 1_000, 100_000, "gather", False, True).way == "blas"


def test_explain_names_the_way_and_the_reason(even):
    atoms, query = even
    text = bm.BanditMIPS().fit(atoms).explain(query)
    assert "way: cache" in text
    assert "because a race takes at least" in text
    assert "909 coordinates of each atom are cached" in text
    assert "way: gather" in bm.BanditMIPS(layout="none").fit(atoms).explain(query)
    assert "way: columns" in bm.BanditMIPS(layout="full", sampling="weighted").fit(atoms).explain(query)


def test_explain_names_what_the_compiled_races_do_not_serve(even):
    atoms, query = even
    text = bm.BanditMIPS(bound="bernstein").fit(atoms).explain(query)
    assert "round by round" in text
    assert "bound='bernstein'" in text
    assert "bins" in bm.BanditMIPS(bucket_size=30).fit(atoms).explain(query)


def test_explain_takes_one_query(even):
    atoms, query = even
    with pytest.raises(ValueError, match=r"one query .* shape \(2, 20000\)"):
        bm.BanditMIPS().fit(atoms).explain(np.stack([query, query]))


def test_a_trace_holds_the_plan(even):
    atoms, query = even
    trace = bm.BanditMIPS(trace=True).fit(atoms).search(query).trace
    assert "bound paired" in trace.plan
    assert "way: cache" in trace.plan


def test_the_command(even, tmp_path):
    atoms, query = even
    np.save(tmp_path / "atoms.npy", atoms)
    np.save(tmp_path / "queries.npy", query[np.newaxis])
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "atoms.npy"), str(tmp_path / "queries.npy")])
    assert run.exit_code == 0, run.output
    assert "costs (ns): stream" in run.output
    assert "way: cache" in run.output
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "atoms.npy"), str(tmp_path / "none.npy")])
    assert run.exit_code == 2


@pytest.mark.parametrize("text", ["[1]", "nonsense", '{"stream": -1}', '{"speed": 3}', '{"stream": "fast"}'])
def test_costs_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="BANDITMIPS_COSTS must"):
        _parse(text, "BANDITMIPS_COSTS")
