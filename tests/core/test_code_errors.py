"""Errors of estimates from codes, over many rotations: no bias, and the deviation that is claimed for them."""

import numpy as np
import pytest

from banditmips.core.answer import Times
from banditmips.core.certain import ScoreMap
from banditmips.core.code_source import CodeSource, make_dither
from banditmips.core.codes import Codes
from banditmips.core.rotation import Rotation
from banditmips.core.survivors import Survivors

N, D, N_SEEDS = 12, 600, 300


def normal(rng):
    return rng.normal(size=(N, D))


def sparse(rng):
    return rng.normal(size=(N, D)) * (rng.random(size=(N, D)) < 0.02)


def near_duplicates(rng):
    """Atoms that agree but for a few entries: what is left about their mean is next to nothing, and sparse."""
    return rng.normal(size=(1, D)) + (rng.random(size=(N, D)) < 0.01) * rng.normal(size=(N, D))


def one_hot(rng):
    return np.eye(D)[rng.choice(D, N, replace=False)]


def errors_of(atoms, query, centre, n_bits):
    """Errors over claimed deviations: of every seed, every prefix (and all bits), every atom."""
    truth = atoms.astype(np.float64) @ query
    found = []
    for seed in range(N_SEEDS):
        rotation = Rotation(D, seed)
        codes = Codes(rotation, centre, N, rotation.width, n_bits)
        codes.encode(0, atoms)
        alive = Survivors(None, N, 1, False)
        source = CodeSource(alive, codes, query, make_dither(codes), ScoreMap(), Times())
        of_seed = []
        for size in [*codes.ends.tolist(), *([n_bits * rotation.width] if n_bits > 1 else [])]:
            source.advance(size)
            source.fill_radius(1.0, 1.0)
            of_seed.append((alive.estimate_array - truth) / alive.radius_array)
        found.append(of_seed)
    return np.array(found)


@pytest.mark.parametrize("n_bits", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [normal, sparse, near_duplicates, one_hot])
def test_errors_have_mean_zero_and_the_deviation_that_is_claimed(kind, n_bits):
    rng = np.random.default_rng(5)
    atoms = kind(rng).astype(np.float32)
    query = atoms[3] + 0.5 * np.linalg.norm(atoms[3]) / np.sqrt(D) * rng.normal(size=D)
    errors = errors_of(atoms, query, atoms.mean(axis=0), n_bits)
    per_prefix = (errors**2).mean(axis=(0, 2))
    assert (per_prefix > 0.8).all(), per_prefix
    assert (per_prefix < 1.1).all(), per_prefix
    # A mean of 300 has a standard error of 0.06; there are up to 72 of them.
    assert np.abs(errors.mean(axis=0)).max() < 0.25
    # Sub-Gaussian: beyond four deviations lies less than 2 exp(-8) = 0.0007 of all.
    assert (np.abs(errors) > 4.0).mean() < 0.0007
