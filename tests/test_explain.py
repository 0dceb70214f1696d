"""The plan in words: `BanditMIPS.explain`, the trace, and the command; and what decides it."""

import re
import time
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips.cli import app
from banditmips.race import code_search, few_rows, situation
from banditmips.race import query as race_query
from banditmips.race.costs import Costs, _parse
from banditmips.race.plan import SamplingPlan

ALL_PRODUCTS = "way: all products at once"
CODES = "way: certain bounds, codes, exact rows"
UNIFORM, WEIGHTED = "way: coordinates sampled uniformly", "way: coordinates sampled by weight"


@pytest.fixture
def even():
    rng = np.random.default_rng(0)
    return rng.uniform(1.0, 2.0, size=(300, 20_000)).astype(np.float32), rng.uniform(1.0, 2.0, 20_000)


@pytest.fixture
def take(monkeypatch):
    """Have things take what is said, and not what they take here: ``take(cell=..., ...)``."""

    def take(**values):
        for module in (code_search, few_rows, race_query, situation):
            monkeypatch.setattr(module, "costs", lambda: Costs(**values))

    take()
    return take


def test_small_matrices_go_to_blas_and_large_ones_race(even, take):
    atoms, query = even
    assert ALL_PRODUCTS in bm.BanditMIPS().fit(atoms[:10, :10]).explain(query[:10])
    assert CODES in bm.BanditMIPS().fit(atoms).explain(query)
    assert SamplingPlan(Costs(), 1_000, 100_000, itemsize=4).can_pay(first=40)
    assert not SamplingPlan(Costs(), 10, 10, itemsize=4).can_pay(first=40)


def test_a_matrix_in_the_cache_is_cheap_to_multiply(even, take):
    """What a race would save on a matrix from memory, it does not on one that is near."""
    costs = Costs()
    assert costs.stream_of(1_000_000) == costs.near_stream
    assert costs.near_stream < costs.stream_of(4_000_000) < costs.stream
    assert costs.stream_of(100_000_000) == costs.stream
    assert not SamplingPlan(costs, 100, 10_000, itemsize=4).can_pay(first=40)
    assert not SamplingPlan(costs, 1_600, 943, itemsize=4).can_pay(first=40)
    atoms, query = even
    index = bm.BanditMIPS().fit(np.ascontiguousarray(atoms[:, :12_000]))
    assert CODES in index.explain(query[:12_000])
    take(near_stream=costs.near_stream / 10, stream=costs.near_stream / 10)
    assert ALL_PRODUCTS in index.explain(query[:12_000])


def test_for_few_multiplies_nothing_goes_to_blas_at_once(even):
    atoms, query = even
    for layout, way in (("codes", "way: codes"), ("coordinates", UNIFORM), ("none", WEIGHTED)):
        text = bm.BanditMIPS(layout=layout, minimise="multiplies").fit(atoms[:10, :10]).explain(query[:10])
        assert way in text
        assert "all products" not in text


def test_costs_decide(even, take):
    atoms, query = even
    index = bm.BanditMIPS().fit(atoms)
    assert CODES in index.explain(query)
    assert "probe" not in index.explain(query)
    take(cell=10 * Costs().cell, near_cell=10 * Costs().cell)
    assert CODES in index.explain(query)
    assert "\nprobe: one in sixteen of those that are left" in index.explain(query)
    take(cell=200 * Costs().cell, near_cell=200 * Costs().cell)
    assert ALL_PRODUCTS in index.explain(query)
    assert not SamplingPlan(Costs(gather=1e6), 1_000, 100_000, itemsize=4).can_pay(first=40)


def test_explain_names_the_way_and_the_reason(even, take):
    atoms, query = even
    index = bm.BanditMIPS().fit(atoms)
    text = index.explain(query)
    bits = index._fitted.codes.n_bits
    assert f"atoms: 300 x 20,000, float32; codes of {bits} bit" in text
    assert "certain bounds: means and norms alone leave " in text
    assert CODES in text
    assert "because: certain bounds about " in text
    coordinates = bm.BanditMIPS(layout="coordinates").fit(atoms)
    kept = coordinates._fitted.cache.n_coordinates
    assert f"{kept} coordinates of each atom are kept" in coordinates.explain(query)
    assert UNIFORM in coordinates.explain(query)
    assert "a copy by coordinate" in bm.BanditMIPS(layout="full").fit(atoms).explain(query)
    unprepared = bm.BanditMIPS(layout="none").fit(atoms)
    assert "way: all products, because all products take less time" in unprepared.explain(query)
    take(gather=1.0, probe_overhead=1.0, round_overhead=1.0)
    assert "way: all products, because a probe of a few atoms" in unprepared.explain(query)
    apart = np.linspace(0.0, 20.0, 300, dtype=np.float32)[:, np.newaxis] + atoms
    unprepared = bm.BanditMIPS(layout="none").fit(apart)
    assert "certain bounds: they leave " in unprepared.explain(query)
    assert "way: exact rows of these" in unprepared.explain(query)
    take(gather=1.0, probe_overhead=1.0, round_overhead=1.0, row_overhead=1e9)  # rows are what bounds leave to be read
    assert UNIFORM in unprepared.explain(query)
    take(gather=1.0, arithmetic=1.0, weigh=1.0, probe_overhead=1.0, round_overhead=1.0, row_overhead=1e9)
    assert WEIGHTED in unprepared.explain(query**8)


def test_explain_names_what_is_not_for_codes(even, take):
    atoms, query = even
    take(gather=1.0, probe_overhead=1.0, round_overhead=1.0)
    bernstein = bm.BanditMIPS(bound="bernstein").fit(atoms)
    assert "way: all products, because a probe of a few atoms" in bernstein.explain(query)
    bernstein.set_params(minimise="multiplies")
    assert "way: coordinates sampled uniformly, bound bernstein" in bernstein.explain(query)
    assert "10 bins of 30 atoms by norm" in bm.BanditMIPS(bucket_size=30).fit(atoms).explain(query)


@pytest.mark.parametrize("objective", ["cosine", "correlation"])
def test_explain_of_an_index_that_has_not_looked_at_norms(even, objective):
    atoms, query = even
    assert "way: " in bm.BanditMIPS(objective=objective, validate=False).fit(atoms).explain(query)


def test_explain_says_what_each_step_is_expected_to_take(even, take):
    atoms, query = even
    take(bound=1e3, row=1.0, row_overhead=1.0, stream=2.0, near_stream=2.0, sweep=2.0, near_sweep=2.0)
    text = bm.BanditMIPS().fit(atoms).explain(query, k=5)
    assert "certain bounds about 300 us" in text  # 300 atoms
    assert "5 rows about 100 us" in text  # of 20,000 numbers
    assert "all products about 12,000 us" in text
    assert re.search(r"a first round of codes about [\d,.]+ us, all their bits about [\d,.]+ us", text)


def test_explain_takes_one_query(even):
    atoms, query = even
    with pytest.raises(ValueError, match=r"one query .* shape \(2, 20000\)"):
        bm.BanditMIPS().fit(atoms).explain(np.stack([query, query]))


def test_a_trace_holds_the_plan(even, take):
    atoms, query = even
    index = bm.BanditMIPS(trace=True).fit(atoms)
    assert index.search(query).trace.plan == index.explain(query)
    assert "bound paired" in index.search(query, bound="paired", minimise="multiplies").trace.plan


def test_the_command(even, tmp_path, take):
    atoms, query = even
    np.save(tmp_path / "atoms.npy", atoms)
    np.save(tmp_path / "queries.npy", query[np.newaxis])
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "atoms.npy"), str(tmp_path / "queries.npy")])
    assert run.exit_code == 0, run.output
    assert "costs (ns): stream" in run.output
    assert CODES in run.output
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "atoms.npy"), str(tmp_path / "none.npy")])
    assert run.exit_code == 2


@pytest.mark.parametrize("text", ["[1]", "nonsense", '{"stream": -1}', '{"speed": 3}', '{"stream": "fast"}'])
def test_costs_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="BANDITMIPS_COSTS must"):
        _parse(text, "BANDITMIPS_COSTS")


def test_a_trace_says_what_the_search_really_took():
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(200, 3_000)).astype(np.float32), rng.normal(size=(3, 3_000)).astype(np.float32)
    index = bm.BanditMIPS().fit(atoms)
    for search in (index.search, partial(bm.search, atoms)):
        begin = time.perf_counter()
        result = search(queries[0], trace=True)
        assert 0.0 < result.trace.seconds < time.perf_counter() - begin
        assert re.search(r"took [\d,]+ us", repr(result.trace))
    batch = index.search(queries, ends="both", trace=True)
    seconds = [one.seconds for one in (*batch.trace, *batch.smallest.trace)]
    assert len(set(seconds)) == 1  # they share the time of the whole
    assert index.search(queries[0], trace=True).trace == index.search(queries[0], trace=True).trace


def test_sampling_without_an_index_says_what_it_expects(monkeypatch):
    cheap = Costs(gather=1.0, arithmetic=1.0)
    for module in (code_search, race_query, situation):
        monkeypatch.setattr(module, "costs", lambda: cheap)
    rng = np.random.default_rng(0)
    levels = 3.0 + rng.normal(size=(400, 1))
    atoms = (levels + 0.3 * rng.normal(size=(400, 60_000))).astype(np.float32)
    query = (1.0 + 0.1 * rng.normal(size=60_000)).astype(np.float32)
    mask = np.zeros(400, dtype=bool)
    plan = bm.search(atoms, query, trace=True, mask=mask).trace.plan
    assert re.search(r"because: a probe of a few atoms expects about [\d.e+]+ coordinates .* all products take", plan)
