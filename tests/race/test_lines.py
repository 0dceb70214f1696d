"""Lines: groups of coordinates that are read and sampled together."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import StopReason
from banditmips.atoms import DenseStore
from banditmips.core import statistics
from banditmips.core.codes import Codes
from banditmips.core.sample_source import SampleSource
from banditmips.core.survivors import Survivors
from banditmips.race.line_reader import LineReader
from banditmips.race.lines import QueryLines
from banditmips.race.readers import StoreReader
from banditmips.race.sampled import Problem
from banditmips.race.sampling import BottomKSampler, UniformSampler
from banditmips.race.schedule import LimitedSchedule, LineSchedule, Schedule

WIDTH = 8


def planted(n=30, d=4003, seed=0, m=None):
    """Return atoms whose means differ, and a query (or m of them) that separates them early."""
    rng = np.random.default_rng(seed)
    atoms = rng.permutation(np.linspace(-8.0, 8.0, n))[:, np.newaxis] + rng.normal(size=(n, d))
    return atoms, 1.0 + 0.5 * rng.normal(size=d if m is None else (m, d))


def line_terms(atoms, query):
    return np.add.reduceat(atoms * query, np.arange(0, query.size, WIDTH), axis=1)


@pytest.mark.parametrize("d", [64, 67])
def test_a_shorter_last_line_does_not_bias(d):
    """Over all single lines that can be drawn, the mean of the estimates is the score."""
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(5, d)), rng.normal(size=d)
    terms = line_terms(atoms, query)
    m = terms.shape[1]
    estimates, lines = [], []
    for seed in range(200):
        prefix = UniformSampler(m, seed, None).prefix(1)
        lines.append(prefix.coordinates[0])
        estimates.append(terms[:, prefix.coordinates[0]] * prefix.scale[0])
    assert set(lines) == set(range(m))
    first_of_each = [lines.index(line) for line in range(m)]
    np.testing.assert_allclose(np.mean([estimates[i] for i in first_of_each], axis=0), atoms @ query, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_variance_is_that_of_lines(weighted):
    """Deviations of estimates over the standard error have a variance of about 1, whatever lines look like inside."""
    rng = np.random.default_rng(1)
    m, size = 200, 50
    d = m * WIDTH - 3
    atoms = np.repeat(rng.normal(size=(1, m)) + 0.5, WIDTH, axis=1)[:, :d]
    query = np.repeat(1.0 + 0.5 * rng.normal(size=m), WIDTH)[:d]
    lines = QueryLines(Problem(query, statistics.PRODUCT), WIDTH)
    terms, truth = line_terms(atoms, query), float((atoms @ query)[0])
    scores = []
    for seed in range(400):
        sampler = BottomKSampler(lines.lines, lines.weights, seed) if weighted else UniformSampler(m, seed, None)
        alive, problem = Survivors(None, 1, 1, False), Problem(np.ones(m), statistics.PRODUCT)
        source = SampleSource(alive, None, problem, StoreReader(DenseStore(terms), problem), sampler, Schedule())
        source.advance(size)
        scores.append((alive.estimate_array[0] - truth) / np.sqrt(source.variances()[0, 0]))
    assert abs(np.mean(scores)) < 0.2
    assert 0.75 < np.var(scores) < 1.35


def test_lines_of_a_query():
    query = np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.0, 3.0])
    lines = QueryLines(Problem(query, statistics.PRODUCT), 3)
    np.testing.assert_array_equal(lines.widths, [3, 3, 1])
    np.testing.assert_array_equal(lines.weights, [3.0, 0.0, 3.0])
    np.testing.assert_array_equal(lines.lines, [0, 2])
    np.testing.assert_array_equal(lines.costs(), [2, 0, 1])
    np.testing.assert_array_equal(lines.costs(seen=np.array([1, 5, 6])), [1, 0, 0])
    assert lines.share == 4 / 7
    assert QueryLines(Problem(query, statistics.NEG_SQUARED_DIFFERENCE), 3).lines.size == 3


def test_a_schedule_of_lines_gives_up_on_what_does_not_separate():
    schedule = LineSchedule(n_candidates=100)
    assert not schedule.should_finish(100, 32, 64)
    assert schedule.should_finish(100, 33, 64)
    assert schedule.should_finish(60, 300, 1000)
    assert not schedule.should_finish(40, 300, 1000)
    assert LineSchedule(n_candidates=100, line_cost=2.0).should_finish(100, 33, 128)


def test_a_limited_schedule_goes_to_the_limit_and_not_beyond():
    schedule = LimitedSchedule(limit=100)
    sizes, size = [], 0
    while not schedule.should_finish(10, schedule.next_size(size, 10_000), 10_000):
        size = schedule.next_size(size, 10_000)
        sizes.append(size)
    assert sizes[-1] == 100


# --- races on lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"sampling": "uniform"}, {"sampling": "weighted"}, {"replacement": True}])
@pytest.mark.parametrize("k", [1, 4])
def test_a_race_on_lines_reads_little_and_finds_the_best(lined_array, options, k):
    atoms, query = planted()
    store = lined_array(atoms, WIDTH)
    result = bm.search(store, query, k, trace=True, **options)
    np.testing.assert_array_equal(result.indices, np.argsort(-(atoms @ query))[:k])
    assert store.n_read < atoms.size / 3
    assert result.stop_reason is StopReason.SEPARATED
    assert "lines of 8 coordinates" in result.trace.plan


def test_multiplies_and_coordinates_are_counted_by_the_line(lined_array):
    atoms, query = planted()
    query[:2000] = 0.0
    store = lined_array(atoms, WIDTH)
    result = bm.search(store, query, rescore=False, trace=True)
    rounds = result.trace.rounds
    assert rounds[0].n_coordinates == 32 * WIDTH
    assert result.n_multiplies == store.n_read  # no line has both zeros and others
    query[2000::2] = 0.0
    halved = bm.search(lined_array(atoms, WIDTH), query, rescore=False)
    assert halved.n_multiplies < 0.6 * result.n_multiplies * halved.n_rounds / result.n_rounds


def test_no_line_is_read_twice(lined_array):
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(30, 2003)), rng.normal(size=2003)
    store = lined_array(atoms, WIDTH)
    result = bm.search(store, query, 2)
    assert result.stop_reason is StopReason.FINISHED_EXACTLY
    assert result.n_rounds > 0
    assert store.n_read == result.n_multiplies <= atoms.size
    np.testing.assert_array_equal(result.indices, np.argsort(-(atoms @ query))[:2])
    np.testing.assert_allclose(result.scores, np.sort(atoms @ query)[::-1][:2], rtol=1e-12)


def test_too_few_lines_are_not_sampled(lined_array):
    atoms, query = planted(d=40)
    result = bm.search(lined_array(atoms, 1000), query, trace=True)
    assert result.n_rounds == 0
    assert "too few to sample from" in result.trace.plan
    assert result.n_multiplies == atoms.size


def test_what_is_returned_is_part_of_the_cost(lined_array):
    """Where the returned atoms are most of all, a sample before that would be wasted."""
    atoms, query = planted(n=4, d=1000)
    store = lined_array(atoms, WIDTH)
    result = bm.search(store, query, 3, trace=True)
    assert "of all bytes, and the atoms returned 75%" in result.trace.plan
    assert store.n_read == atoms.size
    assert bm.search(lined_array(atoms, WIDTH), query, 3, rescore=False).n_multiplies < atoms.size / 2


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean", "neg_l1"])
@pytest.mark.parametrize("fitted", [False, True])
def test_every_objective_on_lines(lined_array, objective, fitted):
    atoms, query = planted()
    truth = {
        "inner_product": atoms @ query,
        "cosine": atoms @ query / np.linalg.norm(atoms, axis=1) / np.linalg.norm(query),
        "neg_sqeuclidean": -((atoms - query) ** 2).sum(axis=1),
        "neg_l1": -np.abs(atoms - query).sum(axis=1),
    }[objective]
    store = lined_array(atoms, WIDTH)
    if fitted:
        result = bm.BanditMIPS(objective=objective, layout="none").fit(store).search(query, 3)
    else:
        result = bm.search(store, query, 3, objective=objective)
    assert result.n_rounds > 0
    np.testing.assert_array_equal(result.indices, np.argsort(-truth)[:3])
    np.testing.assert_allclose(result.scores, truth[result.indices], rtol=1e-9)


def test_an_index_reads_survivors_alone(lined_array):
    atoms, queries = planted(m=5)
    for minimise in ("multiplies", "time"):
        store = lined_array(atoms, WIDTH)
        index = bm.BanditMIPS(layout="codes", minimise=minimise).fit(store)
        assert store.n_read <= 2 * atoms.size  # once for the codes' centre, which is the mean of up to 256 atoms
        store.n_read = 0
        result = index.search(queries, 2)
        np.testing.assert_array_equal(result.indices, np.argsort(-(queries @ atoms.T))[:, :2])
        # Whole rows: of the survivors, and for speed of leaders before them.
        assert store.n_read % atoms.shape[1] == 0
        n_rows, n_survivors = store.n_read // atoms.shape[1], result.n_survivors.sum()
        assert n_survivors <= n_rows <= n_survivors + (10 if minimise == "time" else 0)


def test_an_index_without_validation_reads_once_too(lined_array):
    atoms, query = planted()
    store = lined_array(atoms, WIDTH)
    index = bm.BanditMIPS(validate=False).fit(store)
    assert store.n_read == atoms.size
    assert index.search(query).indices[0] == (atoms @ query).argmax()


def test_what_a_pass_over_lines_keeps_equals_what_one_over_memory_keeps(lined_array):
    atoms, _ = planted(d=20_000)
    for layout in ("coordinates", "codes"):
        here, there = (bm.BanditMIPS(seed=3, layout=layout).fit(a)._fitted for a in (atoms, lined_array(atoms, WIDTH)))
        if layout == "coordinates":
            np.testing.assert_array_equal(here.cache.order, there.cache.order)
            np.testing.assert_array_equal(here.cache.values, there.cache.values)
        else:
            # Of a file fewer rows are read for the centre; all else is the same about the same centre.
            rows = np.linspace(0, len(atoms) - 1, max(len(atoms) // 16, 8)).astype(int)
            np.testing.assert_allclose(there.codes.centre, atoms[rows].mean(axis=0), rtol=1e-12)
            same = Codes(there.codes.rotation, there.codes.centre, len(atoms), here.codes.n_cells, here.codes.n_bits)
            same.encode(0, atoms)
            for name, array in same.arrays().items():
                np.testing.assert_array_equal(there.codes.arrays()[name], array, err_msg=name)
        np.testing.assert_allclose(here.facts.squared_norms, there.facts.squared_norms)
        np.testing.assert_allclose(here.facts.column_squares, there.facts.column_squares, rtol=1e-6)


def test_a_sample_that_has_not_seen_a_needle_drops_nothing(lined_array):
    atoms = np.full((20, 4000), 1.0) + 0.01 * np.random.default_rng(0).normal(size=(20, 4000))
    atoms[7] = 0.0
    atoms[7, 1234] = 8000.0
    for seed in range(5):
        index = bm.BanditMIPS(seed=seed, layout="none", delta=1e-6).fit(lined_array(atoms, WIDTH))
        assert index.search(np.ones(4000)).indices[0] == 7


def test_bins_race_on_lines_too(lined_array):
    atoms, query = planted(n=60)
    for layout in ("auto", "none"):
        index = bm.BanditMIPS(bucket_size=7, layout=layout).fit(lined_array(atoms, WIDTH))
        for rescore in (True, False):  # without, the best of each bin are measured on lines of their own
            found = index.search(query, 3, rescore=rescore)
            np.testing.assert_array_equal(found.indices, np.argsort(-(atoms @ query))[:3])


def test_a_budget_is_kept_on_lines(lined_array):
    atoms, query = planted()
    for budget in (len(atoms) + 5, 40 * WIDTH * len(atoms)):
        result = bm.search(lined_array(atoms, WIDTH), query, 3, budget=budget, sampling="uniform", delta=1e-30)
        assert result.n_multiplies <= budget
        assert result.stop_reason is StopReason.BUDGET


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_line_is_checked_as_it_is_read(lined_array, value):
    atoms, query = planted()
    atoms[6, :] = value
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 6, column \d+"):
        bm.search(lined_array(atoms, WIDTH), query)
    atoms[6, 1:] = 0.0
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 6, column 0"):
        bm.BanditMIPS().fit(lined_array(atoms, WIDTH))
    index = bm.BanditMIPS(validate=False, layout="none", delta=0.0).fit(lined_array(atoms, WIDTH))
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 6, column 0"):
        index.search(query)


def test_a_line_reader_remembers_what_belongs_to_the_rows_asked_for(lined_array):
    atoms, query = planted(n=6, d=101)
    lines = QueryLines(Problem(query, statistics.PRODUCT), WIDTH)
    reader = LineReader(lined_array(atoms, WIDTH), Problem(query, statistics.PRODUCT), lines)
    prefix = UniformSampler(lines.starts.size, 0, None).prefix(5)
    out = np.empty((3, 5))
    reader.read(np.array([4, 1, 2]), prefix, 0, out)
    np.testing.assert_allclose(out, line_terms(atoms, query)[[4, 1, 2]][:, prefix.coordinates])
    for rows in ([4, 1], [5, 0, 2], [3]):
        np.testing.assert_allclose(reader.exact(np.array(rows)), (atoms @ query)[rows])
