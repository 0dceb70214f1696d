"""Where data come from: files are found, told apart, and never taken for one another."""

from __future__ import annotations

import pytest

from banditmips.experiments.origins import origin_of, where_from
from banditmips.experiments.plan import plan
from banditmips.experiments.rows import DRAWN, SURROGATE
from banditmips.experiments.trials import draw


@pytest.fixture
def ratings(tmp_path, monkeypatch):
    """Return what writes ratings like those of MovieLens 1M (or 100K) where they are looked for."""
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path))

    def write(name="ml-1m/ratings.dat", separator="::", n_movies=12, last=5):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"{user}{separator}{movie}{separator}{1 + (user * movie) % 5}{separator}0"
            for user in range(1, 9)
            for movie in range(1, n_movies + 1)
        ]
        path.write_text("\n".join([*lines, f"1{separator}1{separator}{last}{separator}0", ""]))
        return path

    return write


def test_data_that_arrive_have_another_origin(ratings):
    assert origin_of("NORMAL_CUSTOM") == origin_of("SimpleSong") == origin_of("spikes") == DRAWN
    assert origin_of("MovieLens") == SURROGATE
    path = ratings()
    real = origin_of("MovieLens")
    assert real.startswith("ml-1m/ratings.dat, ")
    assert where_from(real) == real
    ratings(last=4)
    assert origin_of("MovieLens") not in (real, SURROGATE)
    path.unlink()
    assert origin_of("MovieLens") == SURROGATE


def test_tasks_have_the_origin_that_there_is_when_they_are_planned(ratings, tiny):
    before = {task.dataset: task.origin for task in plan(["figure1"], "quick")}
    assert before == {
        "NORMAL_CUSTOM": DRAWN,
        "CORRELATED_NORMAL_CUSTOM": DRAWN,
        "Netflix": SURROGATE,
        "MovieLens": SURROGATE,
    }
    ratings()
    after = {task.dataset: task.origin for task in plan(["figure1"], "quick")}
    assert {name for name in after if after[name] != before[name]} == {"MovieLens"}


def test_data_that_are_only_run_where_they_are_real_are_left_out_elsewhere(ratings):
    assert "MovieLens-100K" not in {task.dataset for task in plan(["figure1"], "quick")}
    ratings("ml-100k/u.data", "\t")
    assert "MovieLens-100K" in {task.dataset for task in plan(["figure1"], "quick")}


def test_a_surrogate_is_drawn_where_one_was_planned_and_real_data_where_they_were(ratings):
    surrogate = draw("MovieLens", (5, 8), 1, 0, SURROGATE)
    ratings()
    assert (draw("MovieLens", (5, 8), 1, 0, SURROGATE).atoms == surrogate.atoms).all()
    real = draw("MovieLens", (5, 8), 1, 0, origin_of("MovieLens"))
    assert (real.atoms != surrogate.atoms).any()
    planned = origin_of("MovieLens")
    ratings(last=3)
    with pytest.raises(ValueError, match=r"the data of MovieLens were ml-1m/ratings.dat, .* when the run began"):
        draw("MovieLens", (5, 8), 1, 0, planned)
