"""What the plan goes by: costs, times, a probe of a few atoms, and rounds that may not take longer than they save."""

from dataclasses import fields, replace

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.core.codes import Codes
from banditmips.core.rotation import Rotation
from banditmips.core.rows import Rows
from banditmips.race.code_search import race_times
from banditmips.race.costs import Costs
from banditmips.race.full import exact_sums, how_they_lie, products_with_all, products_with_one
from banditmips.race.known import index_rows
from banditmips.race.plan import SamplingPlan, cells_needed, code_times, coordinates_needed, full_time

# --- without an index ---------------------------------------------------------------------------------------------


def test_small_matrices_go_to_blas_and_large_ones_may_be_sampled():
    for n, d in ((10, 10), (100, 10_000), (1_600, 943)):
        assert not SamplingPlan(Costs(), n, d, 4).can_pay(16)
    assert SamplingPlan(Costs(), 1_000, 100_000, 4).can_pay(16)


def test_costs_decide():
    assert not SamplingPlan(Costs(gather=1e6), 1_000, 100_000, 4).can_pay(16)
    assert not SamplingPlan(Costs(round_overhead=1e9), 1_000, 100_000, 4).can_pay(16)
    assert SamplingPlan(
        Costs(gather=1.0, arithmetic=1.0, weigh=1.0, probe_overhead=1.0, round_overhead=1.0), 100, 10_000, 4
    ).can_pay(16)


def test_a_matrix_in_the_cache_is_cheap_to_multiply():
    """What a race would save on a matrix from memory, it does not on one that is near."""
    costs = Costs(own_product=1.0, tile=1.0)
    assert costs.stream_of(1_000_000) == costs.near_stream
    assert costs.near_stream < costs.stream_of(4_000_000) < costs.stream
    assert costs.stream_of(100_000_000) == costs.stream
    assert full_time(costs, 1_000, 1_000, 4, True) == pytest.approx(1e6 * costs.near_stream)
    assert full_time(costs, 10_000, 10_000, 8, True) == pytest.approx(2e8 * costs.stream)
    # Queries that come together share what it takes to read the atoms, and no more.
    shared = [full_time(costs, 10_000, 10_000, 4, True, m) for m in (1, 2, 8, 64, 1_000)]
    assert shared == sorted(shared, reverse=True)
    assert shared[2] == pytest.approx(1e8 * (costs.shared / 8 + costs.product))
    assert shared[4] == shared[3] > 1e8 * costs.product
    ours = replace(costs, own_product=0.02)
    far = costs.sweep / 64  # they are read from memory once
    assert full_time(ours, 10_000, 10_000, 4, True, 64) == pytest.approx(1e8 * (0.02 + far))
    assert full_time(ours, 1_000, 1_000, 4, True, 64) == pytest.approx(1e6 * 0.02)
    by_column = ours.own_column / 64 + 0.02  # columns are copied once for all queries
    assert full_time(ours, 10_000, 10_000, 4, True, 64, contiguous=False) == pytest.approx(1e8 * by_column)
    # What BLAS cannot read is multiplied by our own loops.
    assert full_time(costs, 10_000, 10_000, 1, False) == pytest.approx(1e8 * costs.convert)


@pytest.mark.parametrize("scale", [1e-200, 1e-161, 1.0, 1e200, np.inf])
@pytest.mark.parametrize("k", [1, 1_400, 2_000, 3_000])
@pytest.mark.parametrize("by_range", [False, True])
def test_a_probe_survives_any_scale(scale, k, by_range):
    """Squares that over- or underflow, and a k that all are among, leave nothing to be told apart."""
    terms = np.random.default_rng(0).normal(size=(48, 64)) + 3.0 * np.arange(48.0)[:, np.newaxis]
    needed = cells_needed(terms * scale, 2_000, k, absolute=False, by_range=by_range)
    assert needed > 0.0
    if scale != 1e-161:  # there the squares have a few digits left
        assert np.isfinite(needed) == (k == 1 and scale == 1.0)


def test_one_query_takes_the_faster_of_two_loops():
    """Ours on one thread, or that of BLAS with as many as it has: from memory, and in the cache."""
    ours, theirs = Costs(sweep=0.1, near_sweep=0.12), Costs(sweep=0.5)
    assert ours.sweeps(10**8)
    assert not ours.sweeps(10**6)
    assert theirs.sweeps(10**6)
    assert full_time(theirs, 1_000, 1_000, 4, True) == pytest.approx(1e6 * theirs.near_sweep)
    assert not theirs.sweeps(10**8)
    assert full_time(ours, 10_000, 10_000, 4, True) == pytest.approx(1e8 * 0.1)
    assert full_time(theirs, 10_000, 10_000, 4, True) == pytest.approx(1e8 * theirs.stream)


def test_columns_are_read_where_blas_and_the_rows_of_the_best_take_longer():
    costs = Costs(stream=0.2, near_stream=0.05, columns=0.2, near_columns=0.1, apart=0.3, apart_line=0.5)
    assert costs.by_columns(10_000, 10_000, 4, 1)  # from memory one reading is all that counts
    assert not costs.by_columns(1_000, 1_000, 4, 1)
    assert costs.by_columns(1_000, 1_000, 4, 100)  # each number of a row takes a cache line
    assert not costs.by_columns(1_000, 1_000, 8, 100)
    assert full_time(costs, 10_000, 10_000, 4, True, contiguous=False) == pytest.approx(1e8 * costs.columns)


def test_one_query_takes_the_faster_of_two_loops_over_columns():
    ours, theirs = Costs(column_sweep=0.1, near_column_sweep=0.12), Costs(column_sweep=0.5)
    assert theirs.by_columns(10_000, 10_000, 4, 1)
    assert not ours.by_columns(10_000, 10_000, 4, 1)  # those in double precision take more
    assert ours.by_columns(10_000, 10_000, 8, 1)  # only floats have another loop


def test_several_queries_share_columns_that_come_from_memory():
    """While one is multiplied the rest is on its way: what takes longer counts, one, two, four or eight at a time."""
    costs = Costs(column_sweep=0.4, near_column_sweep=0.1, more_column_sweep=0.05, own_product=1.0)
    far = 10**8
    assert costs.column_sweep_of(far) == pytest.approx(0.4)
    assert costs.column_sweep_of(far, 1) == pytest.approx(0.175)  # a quarter of the bytes
    assert costs.column_sweep_of(far, 4, 4) == pytest.approx(0.4)
    assert costs.column_sweep_of(far, 4, 5) == pytest.approx(0.45)
    assert costs.column_sweep_of(far, 4, 16) == pytest.approx(0.9)
    assert costs.column_sweep_of(far, 4, 17) == pytest.approx(1.3)
    assert costs.column_sweep_of(1_000, 4, 3) == pytest.approx(0.25)
    assert not costs.sweeps_columns(far, 4, 6)  # 0.45 is less than 0.48, but not clearly
    assert replace(costs, product=0.05).sweeps_columns(far, 4, 6)  # 0.45 beside 0.6 is
    costs = replace(costs, shared=0.5)  # by BLAS, 0.28 for each of two
    few, many = (full_time(costs, 10_000, 10_000, 4, True, m, contiguous=False) for m in (2, 200))
    assert few == pytest.approx(1e8 * 0.2)
    assert many < 1e8 * costs.column_sweep_of(far, 4, 200) / 200


@pytest.mark.parametrize("column_sweep", [0.01, 10.0])
@pytest.mark.parametrize("columns", [0.001, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"n_jobs": 2}, {"absolute": True}, {"objective": "cosine"}])
def test_either_reading_of_columns_finds_the_same(monkeypatch, column_sweep, columns, dtype, options):
    """To the bit what rows in C order give; a full product is what random atoms get, read once if that is cheaper."""
    costs = Costs(columns=columns, near_columns=columns, column_sweep=column_sweep, near_column_sweep=column_sweep)
    for module in ("full", "direct"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: costs)
    monkeypatch.setattr("banditmips._direct._bare", {})
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(1_000, 3_001)).astype(dtype), rng.normal(size=3_001).astype(dtype)
    expected = bm.search(atoms, query, k=7, **options)
    exact = bm.search(np.asfortranarray(atoms), query, k=7, **options)
    np.testing.assert_array_equal(exact.indices, expected.indices)
    np.testing.assert_array_equal(exact.scores, expected.scores)
    assert exact.n_multiplies == 3_001_000


def test_products_of_columns_that_overflow_are_an_error(monkeypatch):
    monkeypatch.setattr("banditmips.race.direct.costs", lambda: Costs(columns=0.001, near_columns=0.001))
    monkeypatch.setattr("banditmips._direct._bare", {})
    atoms = np.asfortranarray(np.full((40, 300), 1e300))
    with pytest.raises(ValueError, match="the score of atom 0 overflows"):
        bm.search(atoms, np.full(300, 1e300))


@pytest.mark.parametrize("sweep", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_either_loop_finds_the_same(monkeypatch, sweep, dtype):
    monkeypatch.setattr("banditmips.race.full.costs", lambda: Costs(sweep=sweep))
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(1_000, 9_000)).astype(dtype), rng.normal(size=9_000).astype(dtype)
    products = products_with_one(atoms, query)
    exact = atoms.astype(np.float64) @ query.astype(np.float64)
    np.testing.assert_allclose(products, exact, rtol=0, atol=4 * np.finfo(dtype).eps * 9_000)
    np.testing.assert_array_equal(products_with_all(atoms, query[np.newaxis])[0], products)
    result = bm.search(atoms, query, k=3)
    np.testing.assert_array_equal(result.indices, np.argsort(-exact)[:3])
    np.testing.assert_allclose(result.scores, np.sort(exact)[::-1][:3], rtol=1e-12)


def test_sampling_pays_where_few_coordinates_are_needed():
    plan = SamplingPlan(Costs(), 1_000, 100_000, 4, weighted=False)
    assert plan.pays(100, 16)
    assert not plan.pays(1_000, 16)
    assert not plan.pays(float("inf"), 16)
    # Each round goes over all values so far, and a weighted sample needs a weight for every coordinate.
    rounds = plan.race_time(160, 16)
    assert rounds > 1_000 * 160 * (Costs().gather + 2.9 * Costs().arithmetic)
    weighted = SamplingPlan(Costs(), 1_000, 100_000, 4).race_time(160, 16)
    assert weighted == pytest.approx(rounds + 100_000 * Costs().weigh)
    # Every atom is compared with each of the k leaders.
    assert not SamplingPlan(Costs(), 1_000, 100_000, 4, weighted=False, n_leaders=10).pays(100, 16)


def test_a_probe_knows_what_stands_out():
    rng = np.random.default_rng(0)
    noise, query = rng.normal(size=(2_000, 3_000)), 1.0 + 0.3 * rng.normal(size=3_000)
    far_apart = coordinates_needed(DenseStore(noise + 3.0 * rng.normal(size=(2_000, 1))), query, 5.0, 1, 0, False)
    closer = coordinates_needed(DenseStore(noise + 0.7 * rng.normal(size=(2_000, 1))), query, 5.0, 1, 0, False)
    of_many = coordinates_needed(DenseStore(noise + 3.0 * rng.normal(size=(2_000, 1))), query, 5.0, 100, 0, False)
    assert of_many > 3.0 * far_apart  # the hundredth of 2,000 is ahead by half as much as the first
    alike = coordinates_needed(DenseStore(noise), rng.normal(size=3_000), 5.0, 1, 0, False)
    assert 0.0 < far_apart < closer < 200.0
    assert alike > 1_000.0


def test_a_timed_schedule_spends_no_more_than_its_allowance():
    """Rounds that drop nobody take at most a twentieth of the full product, or what was expected of them."""
    plan = SamplingPlan(Costs(), 1_000, 100_000, 4)
    for expected in (0.0, 1e6):
        schedule = plan.schedule(expected)
        size = 0
        while not schedule.should_finish(1_000, following := schedule.next_size(size, 100_000), 100_000):
            size = following
        assert 0.0 < schedule.spent.time <= 0.05 * plan.full + expected
    # What has been dropped pays for more.
    lucky, unlucky = plan.schedule(0.0), plan.schedule(0.0)
    assert unlucky.should_finish(1_000, 400, 100_000)
    assert not lucky.should_finish(20, 400, 100_000)


# --- with an index ------------------------------------------------------------------------------------------------


def test_times_of_codes():
    costs, rotation = Costs(), Rotation(6_000, 0)
    codes = Codes(rotation, np.zeros(6_000), 10, rotation.width)
    times = code_times(costs, codes, 4_000, 4, True, True)
    assert times.cell == costs.near_cell  # ten codes are in the processor's cache
    assert costs.cell_of(1 << 24) < costs.cell_of(1 << 25) == costs.cell_of(1 << 30) == costs.cell
    assert Costs(cell=1e-3).cell_of(0) == 1e-3  # no more from the cache than from memory
    assert times.full == full_time(costs, 4_000, 6_000, 4, True)
    assert times.row == pytest.approx(6_000 * costs.row + costs.row_overhead)
    assert times.prepare == pytest.approx(6_016 * costs.rotate + costs.call_overhead)
    assert code_times(costs, codes, 4_000, 4, False, True).row > 20 * times.row  # entries one by one


# --- costs that are wrong -----------------------------------------------------------------------------------------

_MOVED = [field.name for field in fields(Costs)]


@pytest.mark.parametrize("name", _MOVED)
@pytest.mark.parametrize("factor", [1 / 3, 3.0])
@pytest.mark.parametrize("k", [1, 10])
def test_costs_that_are_three_times_off_change_no_answer_and_little_else(monkeypatch, name, factor, k):
    """The plan believes moved costs; what was done is then counted at the true ones."""
    true = Costs()
    moved = replace(true, **{name: factor * getattr(true, name)})
    for module in ("direct", "code_search", "query"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: moved)
    rng = np.random.default_rng(0)
    n, d = 2_000, 2_048
    atoms = rng.normal(size=(n, d)).astype(np.float32)
    full = full_time(true, n, d, 4, True)
    index = bm.BanditMIPS().fit(atoms)
    for query in rng.normal(size=(3, d)).astype(np.float32):
        result, without = index.search(query, k=k), bm.search(atoms, query, k=k)
        truth = np.argsort(-(atoms.astype(np.float64) @ query))[:k]
        np.testing.assert_array_equal(result.indices, truth)
        np.testing.assert_array_equal(without.indices, truth)
        # Nothing stands out here. A race that was given up has cost no more than a part of what then had to be done.
        if result.n_multiplies >= atoms.size:
            n_cells = result.n_multiplies - atoms.size
            assert n_cells * true.cell + (result.n_rounds > 0) * d * true.rotate <= 0.2 * full
        if without.n_multiplies >= atoms.size:
            assert (without.n_multiplies - atoms.size) * (true.gather + 3.0 * true.arithmetic) <= 0.2 * full


@pytest.mark.parametrize(("n_wanting", "is_shared"), [(3, False), (9, True)])
def test_rows_that_many_queries_want_are_read_once_for_all_of_them(n_wanting, is_shared, monkeypatch):
    """To the bit what each query has alone."""
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(100, 30_000)).astype(np.float32), rng.normal(size=(9, 30_000)).astype(np.float32)
    rows, close = Rows([atoms]), np.concatenate([np.arange(t // n_wanting, 100, 10) for t in range(9)])
    begins, alone = np.arange(10) * (close.size // 9), []
    expected = np.concatenate(
        [rows.scores(close[10 * t : 10 * t + 10], None, one.astype(np.float64), 0) for t, one in enumerate(queries)]
    )
    monkeypatch.setattr("banditmips.race.full.add_exactly", lambda *asked: alone.append(asked))
    found = exact_sums(rows, queries, None, close, begins, 0)
    assert bool(alone) != is_shared
    if is_shared:
        np.testing.assert_array_equal(found, expected)


def test_between_cache_and_memory_costs_follow_what_a_last_cache_holds():
    small, large = Costs(), Costs(at_32_mb=0.1, at_64_mb=0.4)  # of less than 32 MB, and of about 64
    for here, parts in ((small, (0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0)), (large, (0.0, 0.0, 0.05, 0.1, 0.4, 1.0, 1.0))):
        found = [here.stream_of(1 << doublings) for doublings in (10, 21, 22, 23, 24, 25, 30)]
        expected = [here.near_stream + part * (here.stream - here.near_stream) for part in parts]
        np.testing.assert_allclose(found, expected)


def test_the_plan_knows_in_which_order_atoms_lie_that_were_added():
    """Rows of a part in Fortran order take a cache line for each number, also where the first part is in C order."""
    atoms = np.random.default_rng(0).normal(size=(60, 400)).astype(np.float32)
    parts = {"C": atoms[30:], "F": np.asfortranarray(atoms[30:])}
    rows, full = {}, {}
    for order, part in parts.items():
        index = bm.BanditMIPS().fit(atoms[:30]).add(part)
        times = race_times(index._atom_set, index._parameters.options)
        rows[order], full[order] = times.row, times.full
        assert how_they_lie(index_rows(index._atom_set)) == (True, order == "C")
    assert rows["F"] > 2.0 * rows["C"]
    whole = bm.BanditMIPS().fit(atoms)
    assert rows["C"] == race_times(whole._atom_set, whole._parameters.options).row
    assert full["C"] == race_times(whole._atom_set, whole._parameters.options).full
