"""The examples run at a small size, find what they look for, go wrong where they say so, and draw one picture each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
DOCS = FOLDER.parent / "docs" / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_told(capsys: pytest.CaptureFixture[str], picture: Path) -> None:
    """The time of the full product is printed beside our own, and the picture was drawn."""
    out = capsys.readouterr().out
    assert " ms, " in out
    assert "full product" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_parents_of_a_child_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, parents, best = load("whose_child").main(tmp_path, n_people=200, n_places=4_000)
    np.testing.assert_array_equal(np.sort(found), np.sort(parents))
    # The wrong turn: the two best are not always the parents.
    assert (np.sort(best[:, :2]) != np.sort(parents)).any()
    assert_told(capsys, tmp_path / "whose-child.png")


def test_the_training_examples_behind_a_prediction_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, is_wrong, (queries, atoms) = load("training_examples").main(tmp_path, n_train=600, n_hidden=64, n_queries=20)
    scores = queries @ atoms.T
    np.testing.assert_array_equal(rows["for it"][:, 0], scores.argmax(axis=1))
    np.testing.assert_array_equal(rows["against it"][:, 0], scores.argmin(axis=1))
    # The wrong turn brings up the examples with wrong labels.
    assert is_wrong[rows["wrong turn"]].mean() > is_wrong.mean() + 0.1
    assert is_wrong[rows["for it"]].mean() < is_wrong.mean()
    assert_told(capsys, tmp_path / "training-examples.png")


def test_the_genome_of_a_read_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, origins, wrong_turn = load("where_from").main(tmp_path, n_species=20, n_reads=5)
    np.testing.assert_array_equal(found[:, 0], origins)
    np.testing.assert_array_equal(found // 4, np.repeat(origins[:, None] // 4, 4, axis=1))  # strains of its species
    assert (wrong_turn != origins).any()
    assert_told(capsys, tmp_path / "where-from.png")


def test_the_recordings_in_a_mix_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, playing, wrong_turn = load("what_is_playing").main(tmp_path, n_recordings=300)
    np.testing.assert_array_equal(found.indices, playing)
    np.testing.assert_allclose(found.coefficients, [1.0, 0.6, 0.35, 0.2], atol=0.02)
    assert set(wrong_turn.tolist()) != set(playing.tolist())
    assert (tmp_path / "mix.wav").exists()
    assert (tmp_path / "found.wav").exists()
    assert_told(capsys, tmp_path / "what-is-playing.png")


def test_movies_of_the_same_kind_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    like, wrong_turn, asked, titles = load("movies_like_this").main(tmp_path, n_movies=300, n_people=2_000)
    kinds = np.array(titles)
    assert (kinds[like[:, 1:]] == np.array(asked)[:, None]).mean() > 0.8
    assert (kinds[wrong_turn[:, 1:]] == np.array(asked)[:, None]).mean() < 0.2
    assert_told(capsys, tmp_path / "movies-like-this.png")


def test_movies_are_read_from_movielens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder in MovieLens's format: forty movies, of which two are liked by the same people."""
    rng = np.random.default_rng(0)
    stars = rng.integers(1, 6, size=(45, 30))
    stars[7] = stars[3]
    lines = [f"{p + 1}\t{m + 1}\t{stars[m, p]}\t0" for m in range(45) for p in range(30)]
    (tmp_path / "u.data").write_text("\n".join(lines))
    (tmp_path / "u.item").write_text("\n".join(f"{m + 1}|Film {m}|1999" for m in range(45)), encoding="latin-1")
    like, _, asked, titles = load("movies_like_this").main(tmp_path, ml_100k=tmp_path)
    assert titles[7] == "Film 7"
    assert set(like[asked.index("Film 3"), :2].tolist()) == {3, 7}
    assert_told(capsys, tmp_path / "movies-like-this.png")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_its_wrong_turn(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "The wrong turn: " in text
    assert "simulated" in text or "scikit-learn" in text  # where the data comes from


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_has_a_page_with_its_picture(script: Path) -> None:
    name = script.stem.replace("_", "-")
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert f"{{literalinclude}} ../../examples/{script.name}" in page
    assert f"]({name}.png)" in page
    assert (DOCS / f"{name}.png").stat().st_size < 100_000


def test_there_are_five_examples() -> None:
    assert len(SCRIPTS) >= 5
