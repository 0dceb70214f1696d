"""Experiments in miniature: every figure, in sizes that take seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banditmips.experiments import (
    beyond,
    beyond_clock,
    beyond_failures,
    beyond_sampling,
    beyond_sweeps,
    beyond_warm_start,
    figure1,
    figure2,
    figure4,
    figure7,
    figure8,
    figure9,
    tradeoffs,
)

FOUR = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens")

TINY = {
    figure1: figure1.Sizes(dict.fromkeys(FOUR, (100, 200)), n=10, n_trials=2, n_queries=2),
    figure2: figure2.Sizes(dict.fromkeys(FOUR, (60,)), n=30, n_trials=1, n_queries=1),
    tradeoffs: tradeoffs.Sizes(
        dict.fromkeys(FOUR, 110), race_steps=2, baseline_steps=2, race_trials=1, baseline_trials=1, n=105, n_queries=1
    ),
    figure4: figure4.Sizes({"Sift-1M": (100, 200), "CryptoPairs": (50, 100)}, n_trials=1, n_queries=1),
    figure7: figure7.Sizes(
        atoms={"CORRELATED_NORMAL_CUSTOM": (50, 100), "Netflix": (40, 80)},
        d=30,
        dimensions={"CORRELATED_NORMAL_CUSTOM": (20, 40), "Netflix": (20, 40)},
        n=60,
        n_trials=1,
        n_queries=1,
    ),
    figure8: figure8.Sizes((1,), n_notes=8, n_trials=1),
    figure9: figure9.Sizes((100, 200), n=10, n_trials=2),
    beyond: beyond.Sizes(dict.fromkeys((*FOUR, "Sift-1M", "CryptoPairs"), (100, 200)), n=10, n_trials=1, n_queries=1),
    beyond_sampling: beyond_sampling.Sizes(dict.fromkeys((*FOUR[:3], "uneven columns"), 300), n=20, n_trials=1),
    beyond_sweeps: beyond_sweeps.Sizes(dict.fromkeys(FOUR, 200), n_steps=2, n=30, n_trials=1, n_queries=1),
    beyond_warm_start: beyond_warm_start.Sizes({"NORMAL_CUSTOM": 100}, n=20, n_trials=1, queries=(1, 3)),
    beyond_clock: beyond_clock.Sizes(dict.fromkeys(FOUR, (100,)), n=20, n_trials=1, n_queries=2),
    beyond_failures: beyond_failures.Sizes(n=5, d=50, n_batches=1, n_draws=2, n_searches=2, datasets=FOUR),
}


@pytest.fixture(autouse=True)
def no_real_data(tmp_path, monkeypatch):
    """Let no test see data that happens to be on the machine."""
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path / "no-data"))


@pytest.fixture
def tiny(monkeypatch):
    """Make both efforts of every figure tiny."""
    for module, sizes in TINY.items():
        for effort in ("full", "quick"):
            monkeypatch.setitem(module.SIZES, effort, sizes)
    kinds = replace(TINY[beyond_failures], datasets=("spikes", "word counts"))
    for effort in ("full", "quick"):
        monkeypatch.setitem(beyond_failures.KINDS_SIZES, effort, kinds)
