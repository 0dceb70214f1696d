"""Matching pursuit: what the exact algorithms choose, on every kind of dictionary, and manners with bad input."""

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.atoms import FunctionStore, gabor_atoms, sinusoids
from banditmips.pursuit import coefficients


def exact_pursuit(atoms, signal, n_nonzero, method="mp", group_size=1):
    """Return the groups chosen and their coefficients, by the textbook and without any cleverness."""
    groups = atoms.reshape(-1, group_size, atoms.shape[1])
    residual, chosen, weights = signal.astype(float), [], []
    for _ in range(n_nonzero):
        fits = [np.linalg.lstsq(group.T, residual, rcond=None)[0] for group in groups]
        best = int(np.argmax([np.linalg.norm(fit @ group) for fit, group in zip(fits, groups, strict=True)]))
        chosen.append(best)
        if method == "mp":
            weights.append(fits[best])
            residual = residual - fits[best] @ groups[best]
        else:
            span = np.concatenate([groups[i] for i in chosen])
            weights = np.linalg.lstsq(span.T, signal, rcond=None)[0].reshape(-1, group_size)
            residual = signal - weights.ravel() @ span
    return chosen, np.array(weights).reshape(n_nonzero, group_size), np.linalg.norm(residual)


@pytest.fixture(scope="module")
def problem():
    """Return atoms of very different norms, and a signal made of four of them and noise."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(60, 20_000)) * np.exp(2.0 * rng.normal(size=(60, 1)))
    unit = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    signal = 90.0 * (unit[7] - 0.8 * unit[30] + 0.6 * unit[3] - 0.45 * unit[55]) + 0.2 * rng.normal(size=20_000)
    return atoms, signal


def decompose_fitted(atoms, signal, n_nonzero, **options):
    return bm.MatchingPursuit(n_nonzero, **options).fit(atoms).decompose(signal)


@pytest.mark.parametrize("decompose", [bm.matching_pursuit, decompose_fitted])
@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize("sampling", ["auto", "uniform", "weighted"])
def test_it_chooses_and_computes_what_the_exact_algorithm_does(problem, decompose, method, sampling):
    atoms, signal = problem
    chosen, weights, left = exact_pursuit(atoms, signal, 4, method)
    result = decompose(atoms, signal, 4, method=method, sampling=sampling)
    assert result.indices.tolist() == chosen == [7, 30, 3, 55]
    np.testing.assert_allclose(result.coefficients, weights[:, 0], rtol=1e-9)
    np.testing.assert_array_equal(result.lower, result.coefficients)
    np.testing.assert_array_equal(result.upper, result.coefficients)
    assert result.exact.all()
    assert result.residual_norms[-1] == pytest.approx(left, rel=1e-9)
    assert result.signal_norm == pytest.approx(np.linalg.norm(signal), rel=1e-12)
    assert (np.diff(result.residual_norms) < 0).all()
    assert result.stop == "n_nonzero"
    assert 0.0 < result.delta_spent <= 1e-3
    assert result.n_multiplies.sum() == result.n_multiplies_total < 0.4 * 4 * atoms.size


@pytest.mark.parametrize("method", ["mp", "omp"])
def test_estimates_have_the_precision_asked_for(problem, method):
    atoms, signal = problem
    chosen, weights, left = exact_pursuit(atoms, signal, 4, "omp")
    result = bm.matching_pursuit(atoms, signal, 4, method=method, rescore=False, coef_rtol=0.1)
    assert result.indices.tolist() == chosen
    assert (~result.exact).any()
    assert (result.upper - result.lower <= 2.0 * 0.1 * np.abs(result.coefficients)).all()
    np.testing.assert_allclose(result.coefficients, weights[:, 0], rtol=0.1)
    np.testing.assert_allclose(result.residual_norms[-1], left, rtol=0.1)


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda a: a.astype(np.float32),
        scipy.sparse.csr_array,
        lambda a: FunctionStore(lambda i, j: a[i, j], *a.shape),
        lambda a: a[::-1][::-1],
    ],
    ids=["fortran", "float32", "sparse", "function", "strided"],
)
def test_the_kind_of_dictionary_does_not_matter(problem, convert):
    atoms, signal = problem
    plain, other = (bm.matching_pursuit(a, signal, 4, method="omp") for a in (atoms, convert(atoms)))
    np.testing.assert_array_equal(other.indices, plain.indices)
    np.testing.assert_allclose(other.coefficients, plain.coefficients, rtol=1e-5)


@pytest.mark.parametrize("method", ["mp", "omp"])
def test_a_signal_may_be_a_function(problem, method):
    atoms, signal = problem
    as_array = bm.matching_pursuit(atoms, signal, 3, method=method)
    as_function = bm.matching_pursuit(atoms, lambda j: signal[j], 3, method=method, sampling="uniform")
    np.testing.assert_array_equal(as_function.indices, as_array.indices)
    np.testing.assert_allclose(as_function.coefficients, as_array.coefficients, rtol=1e-9)
    np.testing.assert_allclose(as_function.residual_norms, as_array.residual_norms, rtol=1e-9)


@pytest.mark.parametrize("rescore", [True, False])
def test_the_seed_decides_and_inputs_stay_as_they_are(problem, rescore):
    atoms, signal = problem[0].copy(), problem[1].copy()
    first, again, other = (
        bm.matching_pursuit(atoms, signal, 3, rescore=rescore, coef_rtol=0.1, seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.coefficients, again.coefficients)
    np.testing.assert_array_equal(first.n_multiplies, again.n_multiplies)
    assert rescore or (first.coefficients != other.coefficients).any()
    np.testing.assert_array_equal(atoms, problem[0])
    np.testing.assert_array_equal(signal, problem[1])


def test_read_only_arrays_and_integers_will_do(problem):
    atoms, signal = (np.round(x).astype(np.int16) for x in problem)
    atoms.flags.writeable = signal.flags.writeable = False
    chosen, weights, _ = exact_pursuit(atoms.astype(float), signal.astype(float), 2)
    result = bm.matching_pursuit(atoms, signal, 2)
    assert result.indices.tolist() == chosen
    np.testing.assert_allclose(result.coefficients, weights[:, 0], rtol=1e-9)


def test_delta_0_computes_every_product(problem):
    atoms, signal = problem
    result = bm.matching_pursuit(atoms, signal, 3, delta=0, rescore=False)
    chosen, weights, _ = exact_pursuit(atoms, signal, 3)
    assert result.indices.tolist() == chosen
    np.testing.assert_allclose(result.coefficients, weights[:, 0], rtol=1e-9)
    assert result.delta_spent == 0.0
    assert result.n_multiplies_total >= 3 * atoms.size


def test_mp_may_choose_an_atom_again_and_its_coefficients_add_up():
    atoms = np.zeros((2, 5_000))
    atoms[0] = 1.0
    atoms[1] = 1.0
    atoms[1, ::3] = 0.0
    signal = 3.0 * atoms[0] - 1.0 * atoms[1]
    result = bm.matching_pursuit(atoms, signal, 2, tol=None)
    assert result.indices.tolist() == exact_pursuit(atoms, signal, 2)[0]
    many = bm.MatchingPursuit(tol=1e-6).fit(np.vstack([atoms] + [np.zeros(5_000)] * 60)).decompose(signal)
    assert many.stop == "tol"
    assert len(many.indices) > 2
    assert set(many.indices.tolist()) == {0, 1}
    np.testing.assert_allclose(many.coef_[:2], [3.0, -1.0], atol=1e-3)
    np.testing.assert_allclose(many.reconstruct(), signal, atol=1e-3)


def test_reconstruction_is_the_sum_of_the_components(problem):
    atoms, signal = problem
    result = bm.matching_pursuit(atoms, signal, 4, method="omp")
    np.testing.assert_allclose(result.reconstruct(), result.coef_ @ atoms, atol=1e-9)
    np.testing.assert_allclose(result.reconstruct([5, 17]), (result.coef_ @ atoms)[[5, 17]], atol=1e-9)
    assert np.linalg.norm(signal - result.reconstruct()) == pytest.approx(result.residual_norms[-1], rel=1e-9)
    np.testing.assert_array_equal(result.amplitudes, np.abs(result.coefficients))


def test_tol_is_the_squared_norm_of_the_residual(problem):
    atoms, signal = problem
    _, _, left = exact_pursuit(atoms, signal, 3, "omp")
    result = bm.matching_pursuit(atoms, signal, tol=1.001 * left**2, method="omp")
    assert (len(result.indices), result.stop) == (3, "tol")
    assert bm.matching_pursuit(atoms, signal, n_nonzero=2, tol=1.001 * left**2).stop == "n_nonzero"
    assert len(bm.matching_pursuit(atoms, signal, tol=2 * signal @ signal).indices) == 0
    assert len(bm.matching_pursuit(atoms, signal).indices) == 6  # a tenth of the atoms


def test_many_signals_are_decomposed_as_each_alone(problem):
    atoms, signal = problem
    pursuit = bm.MatchingPursuit(n_nonzero_coefs=3, method="omp").fit(atoms)
    signals = np.stack([signal, signal[::-1], atoms[4]])
    results = pursuit.decompose(signals)
    codes = pursuit.transform(signals)
    assert codes.shape == (3, 60)
    for row, result, code in zip(signals, results, codes, strict=True):
        alone = pursuit.decompose(row)
        np.testing.assert_array_equal(alone.indices, result.indices)
        np.testing.assert_array_equal(alone.coefficients, result.coefficients)
        np.testing.assert_array_equal(alone.coef_, code)
    np.testing.assert_array_equal(pursuit.transform(signal), codes[0])
    assert pursuit.transform(signals[:0]).shape == (0, 60)


# --- pairs that are ranked together --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize("kind", ["function", "matrix"])
def test_pairs_are_ranked_by_the_energy_in_their_plane(method, kind):
    rng = np.random.default_rng(5)
    notes = sinusoids(np.linspace(30.0, 400.0, 20), 20_000, sample_rate=1_000, pairs=True)
    matrix = notes.entries(np.arange(40), np.arange(20_000))
    # Every note at a phase of its own: no single sine or cosine has the largest product.
    time = np.arange(20_000) / 1_000
    frequencies = np.linspace(30.0, 400.0, 20)
    signal = 0.5 * rng.normal(size=20_000)
    for note, amplitude, phase in ((3, 2.0, 0.8), (11, 1.5, 2.3), (17, 1.0, 4.0)):
        signal += amplitude * np.sin(2 * np.pi * frequencies[note] * time + phase)
    atoms = notes if kind == "function" else matrix
    result = bm.matching_pursuit(atoms, signal, 3, method=method, group_size=2)
    chosen, weights, left = exact_pursuit(matrix, signal, 3, method, group_size=2)
    assert chosen == [3, 11, 17]
    assert result.indices.tolist() == [[2 * note, 2 * note + 1] for note in chosen]
    np.testing.assert_allclose(result.coefficients, weights, rtol=1e-7)
    np.testing.assert_allclose(result.amplitudes, [2.0, 1.5, 1.0], rtol=0.02)
    assert result.residual_norms[-1] == pytest.approx(left, rel=1e-9)
    estimated = bm.matching_pursuit(atoms, signal, 3, method=method, group_size=2, rescore=False, coef_rtol=0.1)
    np.testing.assert_array_equal(estimated.indices, result.indices)
    np.testing.assert_allclose(estimated.amplitudes, result.amplitudes, rtol=0.1)


def test_ranking_pairs_differs_from_ranking_atoms():
    """A tone between sine and cosine loses to a weaker pure sine if atoms stand alone, and wins as a pair."""
    store = sinusoids([50.0, 80.0], 10_000, sample_rate=1_000, pairs=True)
    values = store.entries(np.arange(4), np.arange(10_000))
    signal = 1.0 * values[0] + 1.0 * values[1] + 1.2 * values[2]
    assert bm.matching_pursuit(store, signal, 1).indices.tolist() == [[0, 1]]
    assert bm.matching_pursuit(store, signal, 1, group_size=1).indices.tolist() == [2]


def test_pairs_that_are_not_orthogonal_or_even_equal_are_projected_on_all_the_same():
    rng = np.random.default_rng(6)
    atoms = rng.normal(size=(10, 4_000))
    atoms[1] = 0.99 * atoms[0] + 0.1 * atoms[1]
    atoms[3] = 2.0 * atoms[2]
    signal = atoms[0] - atoms[1] + 3.0 * atoms[2] + 0.5 * rng.normal(size=4_000)
    chosen, _, left = exact_pursuit(atoms, signal, 2, group_size=2)
    result = bm.matching_pursuit(atoms, signal, 2, group_size=2)
    assert result.indices.tolist() == [[2 * i, 2 * i + 1] for i in chosen]
    assert result.residual_norms[-1] == pytest.approx(left, rel=1e-9)


def test_local_atoms_are_settled_within_their_support():
    rng = np.random.default_rng(7)
    frequencies, centres = np.tile([40.0, 90.0, 160.0], 20), np.repeat(np.arange(20) + 0.5, 3)
    store = gabor_atoms(frequencies, centres, 0.2, 20_000, sample_rate=1_000)
    matrix = store.entries(np.arange(120), np.arange(20_000))
    weights = np.zeros(120)
    weights[[10, 11, 50, 51, 99]] = [1.0, 2.0, -1.5, 0.5, 1.0]
    signal = weights @ matrix + 0.05 * rng.normal(size=20_000)
    chosen, coefficients_, _ = exact_pursuit(matrix, signal, 3, group_size=2)
    result = bm.matching_pursuit(store, signal, 3)
    assert (result.indices[:, 0] // 2).tolist() == chosen == [5, 25, 49]
    np.testing.assert_allclose(result.coefficients, coefficients_, rtol=1e-7, atol=1e-9)
    # Products of an atom cost the length of its support, 1,601 of 20,000 coordinates.
    everything = bm.matching_pursuit(store, signal, 3, delta=0)
    np.testing.assert_array_equal(everything.indices, result.indices)
    assert everything.n_multiplies[0] <= 1.1 * 120 * 1_601
    # The second step computes anew only where the first has changed something.
    assert everything.n_multiplies[1] <= 0.4 * everything.n_multiplies[0]


# --- what the input may be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rescore", [True, False])
@pytest.mark.parametrize("signal", [np.zeros(4_000), lambda j: np.zeros(j.size)], ids=["array", "function"])
def test_a_zero_signal_has_no_components(rescore, signal):
    atoms = np.random.default_rng(0).normal(size=(20, 4_000))
    result = bm.matching_pursuit(atoms, signal, 3, rescore=rescore)
    assert result.indices.shape == result.coefficients.shape == (0,)
    assert (result.stop, result.signal_norm, result.n_multiplies_total) == ("zero_residual", 0.0, 0)
    assert not result.coef_.any()
    assert not result.reconstruct().any()
    pairs = bm.matching_pursuit(atoms, signal, 3, rescore=rescore, group_size=2)
    assert pairs.indices.shape == pairs.lower.shape == (0, 2)


@pytest.mark.parametrize("method", ["mp", "omp"])
def test_a_residual_of_rounding_errors_ends_the_pursuit(method):
    atoms = np.random.default_rng(1).normal(size=(30, 5_000))
    result = bm.matching_pursuit(atoms, -2.5 * atoms[8], 5, method=method)
    assert (result.indices.tolist(), result.stop) == ([8], "zero_residual")
    np.testing.assert_allclose(result.coefficients, [-2.5], rtol=1e-12)


@pytest.mark.parametrize("decompose", [bm.matching_pursuit, decompose_fitted])
@pytest.mark.parametrize("d", [600, 100_000])
def test_zero_atoms_are_never_chosen(decompose, d):
    rng = np.random.default_rng(2)
    atoms = rng.normal(size=(12, d))
    atoms[[0, 4, 11]] = 0.0
    signal = atoms[5] + 0.5 * atoms[6] + 0.1 * rng.normal(size=d)
    result = decompose(atoms, signal, 9, method="omp")
    assert set(result.indices.tolist()) == set(range(12)) - {0, 4, 11}
    too_many = decompose(atoms, signal, 12, method="omp")
    assert (len(too_many.indices), too_many.stop) == (9, "uncorrelated")
    nothing = decompose(np.zeros((3, d)), np.ones(d), 2)
    assert (len(nothing.indices), nothing.stop) == (0, "uncorrelated")


@pytest.mark.parametrize("scale", [1.0, -3.0])
@pytest.mark.parametrize("rescore", [True, False])
def test_of_equal_atoms_the_first_is_chosen_and_once_is_enough(scale, rescore):
    rng = np.random.default_rng(3)
    atoms = rng.normal(size=(20, 50_000))
    atoms[15] = scale * atoms[4]
    signal = 2.0 * atoms[4] + atoms[9] + 0.2 * rng.normal(size=50_000)
    result = bm.matching_pursuit(atoms, signal, 2, method="omp", rescore=rescore)
    assert result.indices.tolist() == [4, 9]
    np.testing.assert_allclose(result.coefficients, [2.0, 1.0], rtol=0.02)


def test_equal_functions_do_not_cost_their_length():
    frequencies = np.array([30.0, 50.0, 50.0, 70.0])
    for pairs in (False, True):
        store = sinusoids(frequencies, 10**9, sample_rate=1_000, pairs=pairs)
        result = bm.matching_pursuit(
            store, lambda j: np.sin(2 * np.pi * 0.05 * j), 1, rescore=False, delta=0.01, sampling="uniform"
        )
        assert result.indices.ravel()[0] == (2 if pairs else 1)
        assert result.search_stops == ("epsilon",)
        assert result.n_multiplies_total < 100_000


def test_what_no_atom_explains_ends_the_pursuit():
    atoms = np.zeros((3, 400))
    atoms[0, :100], atoms[1, 100:200], atoms[2, 200:300] = 1.0, 1.0, 1.0
    signal = np.zeros(400)
    signal[350], signal[:100] = 5.0, 1.0
    result = bm.matching_pursuit(atoms, signal, 3)
    assert (result.indices.tolist(), result.stop) == ([0], "uncorrelated")
    assert result.residual_norms == pytest.approx([5.0])


@pytest.mark.parametrize("rescore", [True, False])
def test_dependent_atoms_end_an_orthogonal_pursuit(rescore):
    rng = np.random.default_rng(4)
    base = rng.normal(size=(2, 3_000))
    atoms = np.vstack([base, base.sum(axis=0), base[0] - base[1]])
    signal = 2.0 * base[0] - base[1] + rng.normal(size=3_000)
    result = bm.matching_pursuit(atoms, signal, 4, method="omp", rescore=rescore)
    assert len(result.indices) == 2
    assert result.stop in ("dependent", "uncorrelated")
    exact = np.linalg.lstsq(base.T, signal, rcond=None)[0] @ base
    np.testing.assert_allclose(result.reconstruct(), exact, atol=1e-6 if rescore else 0.5)


def test_dependence_is_seen_whatever_the_scale():
    rng = np.random.default_rng(5)
    atoms = rng.normal(size=(4, 50))
    atoms[3] = 1e-6 * (atoms[0] - 2.0 * atoms[2])
    assert coefficients.is_dependent(atoms @ atoms.T, 1)
    assert not coefficients.is_dependent(atoms[:3] @ atoms[:3].T, 1)
    assert not coefficients.is_dependent(atoms[[0, 1, 3]] @ atoms[[0, 1, 3]].T, 1)


def test_budgets_are_kept_and_intervals_stay_honest():
    rng = np.random.default_rng(6)
    atoms = rng.normal(size=(50, 200_000))
    signal = atoms[0] + 0.98 * atoms[1] + rng.normal(size=200_000)
    budget = 40_000
    result = bm.matching_pursuit(atoms, signal, 1, rescore=False, budget=budget, coef_rtol=1e-4)
    assert result.search_stops == ("budget",)
    assert result.n_multiplies_total <= 1.1 * budget
    chosen = atoms[result.indices[0]]
    true = chosen @ signal / (chosen @ chosen)
    assert result.lower[0] < true < result.upper[0]
    assert not result.exact[0]


def test_weakness_saves_telling_near_equals_apart():
    rng = np.random.default_rng(7)
    store = sinusoids([30.0, 50.0, 70.0], 10_000_000, sample_rate=1_000)

    def signal(j):
        return np.sin(2 * np.pi * 0.05 * j) + 0.999 * np.sin(2 * np.pi * 0.07 * j)

    weak = bm.matching_pursuit(store, signal, 1, weakness=0.1, rescore=False, coef_rtol=0.1)
    assert weak.indices[0] in (1, 2)
    assert weak.search_stops == ("epsilon",)
    assert weak.n_multiplies_total < 20_000
    far = rng.normal(size=(40, 20_000))
    result = bm.matching_pursuit(far, far[3] + 0.2 * far[8], 1, weakness=0.3)
    assert result.indices.tolist() == [3]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_nonzero": 21}, ValueError, "n_nonzero must be at most 20, the number of atoms, got 21"),
        ({"n_nonzero": 11, "group_size": 2}, ValueError, "n_nonzero must be at most 10, the number of pairs"),
        ({"n_nonzero": 0}, ValueError, "n_nonzero must be at least 1"),
        ({"n_nonzero": 2.5}, TypeError, "n_nonzero must be an integer"),
        ({"tol": -1.0}, ValueError, "tol must be at least 0"),
        ({"tol": "x"}, TypeError, "tol must be a number"),
        ({"method": "lars"}, ValueError, "method must be one of 'mp', 'omp', got 'lars'"),
        ({"sampling": "sorted"}, ValueError, "sampling must be one of"),
        ({"delta": 1.5}, ValueError, "delta must be in"),
        ({"weakness": 1.0}, ValueError, "weakness must be in"),
        ({"coef_rtol": 0.0}, ValueError, "coef_rtol must be positive"),
        ({"budget": 10}, ValueError, r"budget must allow at least 32 .*20 atoms \(640\), got 10"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"rescore": 1}, TypeError, "rescore must be True or False"),
        ({"group_size": 3}, ValueError, "group_size must be 1 or 2, got 3"),
        ({"n_nonzer": 3}, TypeError, "no option 'n_nonzer'; did you mean 'n_nonzero'"),
    ],
)
def test_bad_options_are_named(options, error, message):
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    with pytest.raises(error, match=message):
        bm.matching_pursuit(atoms, atoms[0], **options)
    renamed = {"n_nonzero_coefs" if name == "n_nonzero" else name: value for name, value in options.items()}
    with pytest.raises(error):
        bm.MatchingPursuit(**renamed).fit(atoms)


@pytest.mark.parametrize(
    ("signal", "error", "message"),
    [
        (np.ones(299), ValueError, "signal has 299 coordinates, but the atoms have 300"),
        (np.ones((2, 300)), ValueError, "signal must be one signal"),
        (np.where(np.arange(300) == 7, np.nan, 1.0), ValueError, "signal has nan at coordinate 7"),
        (np.where(np.arange(300) == 9, -np.inf, 1.0), ValueError, "signal has -inf at coordinate 9"),
        (np.ones(300) * 1j, TypeError, "signal must hold real numbers, got dtype complex"),
        (np.array(["a"] * 300), TypeError, "signal must hold real numbers"),
        (lambda j: np.ones(3), ValueError, "signal must return one real number for each"),
        (lambda j: np.full(j.size, np.nan), ValueError, "signal gave nan at coordinate"),
    ],
)
def test_bad_signals_are_named(signal, error, message):
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    with pytest.raises(error, match=message):
        bm.matching_pursuit(atoms, signal, 2)


@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize("exponent", [-1000, -600, 500, 900])
def test_signals_whose_squares_are_no_numbers(exponent, method):
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    signal = 3.0 * atoms[5] - 2.0 * atoms[7]
    plain = bm.matching_pursuit(atoms, signal, 2, method=method)
    scaled = bm.matching_pursuit(atoms, np.ldexp(signal, exponent), 2, method=method)
    assert scaled.indices.tolist() == plain.indices.tolist() == [5, 7]
    assert (np.ldexp(scaled.coefficients, -exponent) == plain.coefficients).all()
    assert scaled.signal_norm == np.ldexp(plain.signal_norm, exponent)
    fitted = bm.MatchingPursuit(2, method=method).fit(atoms)
    assert fitted.decompose(np.ldexp(signal, exponent)).indices.tolist() == [5, 7]
    # The tolerance is the signal's, whatever it is multiplied by in between.
    loose = bm.matching_pursuit(atoms, np.ldexp(signal, exponent), tol=1.0)
    assert loose.stop == ("tol" if exponent < 0 else "zero_residual")


def test_signals_whose_norm_or_entries_are_no_numbers_are_named():
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    with pytest.raises(ValueError, match=r"signal must have a norm and .* up to 1e\+308 \(argument 'signal'\)"):
        bm.matching_pursuit(atoms, np.full(300, 1e308), 2)
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        with pytest.raises(ValueError, match=r"signal has inf at coordinate 0"):
            bm.matching_pursuit(atoms, np.full(300, np.finfo(np.longdouble).max), 2)


@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize(("size", "how"), [(1e-200, "underflow"), (1e200, "overflow")])
def test_atoms_whose_squares_are_no_numbers(size, how, method):
    """They were taken for zero, or for uncorrelated, without a word. A fit divides by lengths, and needs no squares."""
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    signal = 3.0 * atoms[5] - 2.0 * atoms[7]
    with pytest.raises(ValueError, match=rf"the squares of atom 0 {how} double precision.*\(argument 'atoms'\)"):
        bm.matching_pursuit(size * atoms, signal, 2, method=method)
    atoms[3] = 0.0  # is no matter
    assert bm.matching_pursuit(atoms, signal, 2, method=method).indices.tolist() == [5, 7]


def test_functions_cannot_be_weighted():
    with pytest.raises(ValueError, match="sampling='weighted' needs a signal that is an array"):
        bm.matching_pursuit(np.eye(5), lambda j: np.ones(j.size), 1, sampling="weighted")


def test_more_components_than_coordinates_are_refused():
    with pytest.raises(ValueError, match="n_nonzero must be at most 5, the number of coordinates"):
        bm.matching_pursuit(np.random.default_rng(0).normal(size=(20, 5)), np.ones(5), 6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_atoms_that_are_not_finite_are_named(value):
    atoms = np.random.default_rng(0).normal(size=(20, 300))
    atoms[3, 7] = value
    with pytest.raises(ValueError, match=f"atoms has {value} at row 3, column 7"):
        bm.matching_pursuit(atoms, np.ones(300), 2)
    with pytest.raises(ValueError, match=f"atoms has {value} at row 3, column 7"):
        bm.MatchingPursuit(2).fit(atoms)


def test_odd_numbers_of_atoms_have_no_pairs():
    with pytest.raises(ValueError, match="group_size is 2, so the number of atoms must be even, got 3"):
        bm.matching_pursuit(np.eye(3), np.ones(3), 1, group_size=2)


def test_a_dictionary_must_be_fitted_first():
    with pytest.raises(ValueError, match=r"call fit\(atoms\) first"):
        bm.MatchingPursuit(2).decompose(np.ones(3))


@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize("scale", [1e-160, 1e150])
def test_a_fitted_dictionary_may_have_squares_that_are_no_numbers(method, scale):
    rng = np.random.default_rng(0)
    atoms, signal = rng.normal(size=(12, 9)), rng.normal(size=9)
    pursuits = [decompose_fitted(atoms * by, signal, 3, method=method) for by in (1.0, scale)]
    assert pursuits[0].indices.tolist() == pursuits[1].indices.tolist()
    np.testing.assert_allclose(pursuits[1].coefficients * scale, pursuits[0].coefficients, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_tiny_problems_are_exact(d):
    rng = np.random.default_rng(d)
    atoms, signal = rng.normal(size=(7, d)), rng.normal(size=d)
    for rescore in (True, False):
        result = bm.matching_pursuit(atoms, signal, 1, rescore=rescore)
        assert result.indices.tolist() == exact_pursuit(atoms, signal, 1)[0]
        assert result.exact.all()
        assert result.delta_spent == 0.0


def test_small_matrices_are_multiplied_whole_unless_a_budget_or_estimates_ask_for_less():
    rng = np.random.default_rng(8)
    atoms = rng.normal(size=(50, 10_000))
    signal = atoms[3] + 0.1 * rng.normal(size=10_000)
    whole = bm.matching_pursuit(atoms, signal, 1)
    assert (whole.search_stops, whole.delta_spent) == (("finished_exactly",), 0.0)
    for options in ({"rescore": False}, {"budget": 300_000}):
        sampled = bm.matching_pursuit(atoms, signal, 1, **options)
        assert sampled.indices.tolist() == whole.indices.tolist()
        assert sampled.n_multiplies_total < whole.n_multiplies_total / 10
