"""Matching pursuit against scikit-learn's orthogonal_mp, and the growth with the length of a song.

``python -m benchmarks.pursuit`` decomposes 100 signals of 100,000 coordinates with random dictionaries of 1,000 atoms
(800 MB each, and as much again for scikit-learn's copy; about ten minutes); ``--quick`` is a tenth of that in every
respect. All runs on one thread, methods take turns on the same signal, and every answer is compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips.datasets.simple_song import ANSWER, note_names, song_atoms, song_signal, song_size
from benchmarks.machine import describe_machine, load_warning

N_COMPONENTS = 5
DELTA = 1e-3
NOISE = 0.5
"""Norm of the noise over that of the components' sum."""
GOAL_SPEED_UP, GOAL_SAME = 20.0, 0.99


@dataclass
class Method:
    """One way of decomposing: a function from a signal to all n coefficients and the multiplies that they took."""

    name: str
    run: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], int]]


@dataclass
class Record:
    """What was measured of a method over all trials."""

    seconds: list[float] = field(default_factory=list)
    n_multiplies: list[int] = field(default_factory=list)
    n_same: int = 0


def draw_signals(atoms: NDArray[np.float64], n_signals: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Yield sums of five atoms with coefficients of size 1 to 3 and either sign, plus noise."""
    n, d = atoms.shape
    for _ in range(n_signals):
        chosen = rng.choice(n, N_COMPONENTS, replace=False)
        signal = rng.uniform(1.0, 3.0, N_COMPONENTS) * rng.choice([-1.0, 1.0], N_COMPONENTS) @ atoms[chosen]
        yield signal + NOISE * np.linalg.norm(signal) / np.sqrt(d) * rng.normal(size=d)


def make_methods(atoms: NDArray[np.float64], fitted: bm.MatchingPursuit) -> list[Method]:
    """Return scikit-learn's method first, which the others are compared with."""
    from sklearn.linear_model import orthogonal_mp

    # The products with all atoms once at the start and once in each step; what fits the chosen atoms is left out.
    n_products = (N_COMPONENTS + 1) * atoms.size

    def theirs(signal: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        # atoms.T is in Fortran order, which it likes best.
        return np.asarray(orthogonal_mp(atoms.T, signal, n_nonzero_coefs=N_COMPONENTS)), n_products

    def ours(signal: NDArray[np.float64], **options: Any) -> tuple[NDArray[np.float64], int]:
        result = bm.matching_pursuit(atoms, signal, N_COMPONENTS, method="omp", delta=DELTA, **options)
        return result.coef_, result.n_multiplies_total

    def ours_fitted(signal: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        result = fitted.decompose(signal)
        return result.coef_, result.n_multiplies_total

    return [
        Method("scikit-learn orthogonal_mp", theirs),
        Method("matching_pursuit, no fit", ours),
        Method("MatchingPursuit, fitted", ours_fitted),
        Method("matching_pursuit, no fit, rescore=False", lambda signal: ours(signal, rescore=False)),
    ]


def is_same(coefficients: NDArray[np.float64], reference: NDArray[np.float64], exact: bool) -> bool:
    """Whether support and coefficients agree: up to rounding, or to the 2 % that estimates promise."""
    same_support = np.array_equal(np.flatnonzero(coefficients), np.flatnonzero(reference))
    return same_support and np.allclose(coefficients, reference, rtol=1e-8 if exact else 0.02, atol=0.0)


def compare(n: int, d: int, n_dictionaries: int, n_signals: int, seed: int) -> tuple[dict[str, Record], list[float]]:
    """Decompose `n_signals` signals with each of `n_dictionaries` dictionaries; return records and times to fit."""
    records: dict[str, Record] = {}
    fit_seconds = []
    for number in range(n_dictionaries):
        rng = np.random.default_rng([seed, number])
        atoms = rng.normal(size=(n, d))
        atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
        start = time.perf_counter()
        fitted = bm.MatchingPursuit(N_COMPONENTS, method="omp", delta=DELTA).fit(atoms)
        fit_seconds.append(time.perf_counter() - start)
        methods = make_methods(atoms, fitted)
        for method in methods[1:]:
            method.run(atoms[0] - 0.5 * atoms[1])  # warmed up
        for signal in draw_signals(atoms, n_signals, rng):
            reference: NDArray[np.float64] | None = None
            for method in methods:
                start = time.perf_counter()
                coefficients, n_multiplies = method.run(signal)
                record = records.setdefault(method.name, Record())
                record.seconds.append(time.perf_counter() - start)
                record.n_multiplies.append(n_multiplies)
                reference = coefficients if reference is None else reference
                record.n_same += is_same(coefficients, reference, "rescore=False" not in method.name)
    return records, fit_seconds


def print_comparison(records: dict[str, Record], fit_seconds: list[float], n: int, d: int) -> None:
    """Print a table, and the figures beside their goals."""
    print(f"\nRandom dictionaries {n:,} x {d:,}, {N_COMPONENTS} components, noise {NOISE:g}, delta {DELTA:g}; ", end="")
    print(f"fit {np.median(fit_seconds):.2f} s\n")
    print("| | median ms | quartiles ms | times as fast | multiplies | same answer |")
    print("| --- | --- | --- | --- | --- | --- |")
    theirs = next(iter(records.values()))
    for name, record in records.items():
        q25, median, q75 = 1e3 * np.percentile(record.seconds, [25, 50, 75])
        ratio = np.median(theirs.seconds) / np.median(record.seconds)
        print(
            f"| {name} | {median:.1f} | {q25:.1f} to {q75:.1f} | {ratio:.1f} | {np.mean(record.n_multiplies):,.0f} "
            f"| {record.n_same} of {len(record.seconds)} |"
        )
    fitted = records["MatchingPursuit, fitted"]
    speed_up = np.median(theirs.seconds) / np.median(fitted.seconds)
    print(f"\nfitted: {speed_up:.1f}x (goal {GOAL_SPEED_UP:g}x), ", end="")
    print(f"same answers {fitted.n_same / len(fitted.seconds):.0%} (goal {GOAL_SAME:.0%})")


def print_song(lengths: list[int], n_seeds: int) -> None:
    """Print time and multiplies of SimpleSong for several lengths, beside a Fourier transform of the shortest."""
    names = note_names()
    print(f"\nSimpleSong, 88 notes, 5 steps, rescore=False, means over {n_seeds} seeds\n")
    print("| minutes | d | seconds | multiplies | of 5 n d | right |\n| --- | --- | --- | --- | --- | --- |")
    for t in lengths:
        atoms, song, seconds, counts, right = song_atoms(t), song_signal(t), [], [], 0
        for seed in range(n_seeds):
            start = time.perf_counter()
            result = bm.matching_pursuit(atoms, song, N_COMPONENTS, delta=DELTA, rescore=False, seed=seed)
            seconds.append(time.perf_counter() - start)
            counts.append(result.n_multiplies_total)
            found = [names[atom] for atom in result.indices]
            right += found == list(ANSWER) and np.allclose(result.coefficients, list(ANSWER.values()), rtol=0.02)
        share = np.mean(counts) / (5 * 88 * song_size(t))
        print(f"| {2 * t} | {song_size(t):,} | {np.mean(seconds):.2f} | {np.mean(counts):,.0f} | {share:.2g} ", end="")
        print(f"| {right} of {n_seeds} |")
    start = time.perf_counter()
    samples = song_signal(lengths[0])(np.arange(song_size(lengths[0])))
    played = time.perf_counter() - start
    start = time.perf_counter()
    np.fft.rfft(samples)
    print(f"\nFourier transform of {2 * lengths[0]} minutes: {time.perf_counter() - start:.2f} s ", end="")
    print(f"(and {played:.2f} s to compute the song)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the atoms, coordinates and trials")
    parser.add_argument("--dictionaries", type=int, help="random dictionaries, of ten signals each (10; quick: 2 of 5)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    facts = describe_machine(threads=1)
    print(", ".join(f"{key} {facts[key]}" for key in ("date", "commit", "cpu", "cores", "blas", "threads")))
    warning = load_warning(facts)
    if warning is not None:
        print(warning)
    n, d, n_dictionaries, n_signals = (100, 10_000, 2, 5) if arguments.quick else (1_000, 100_000, 10, 10)
    n_dictionaries = arguments.dictionaries or n_dictionaries
    with threadpool_limits(1):
        print_comparison(*compare(n, d, n_dictionaries, n_signals, arguments.seed), n, d)
        print_song([1] if arguments.quick else [1, 10, 50], 1 if arguments.quick else 10)


if __name__ == "__main__":
    main()
