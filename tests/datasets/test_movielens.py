import numpy as np
import pytest

from banditmips.datasets import load, movielens

LINES_100K = ["196\t242\t3\t881250949", "186\t302\t5\t891717742", "22\t242\t1\t878887116", "186\t51\t2\t880606923"]
FORMATS = {
    "movielens_100k": ("ml-100k/u.data", "\t", movielens.read_movielens_100k),
    "movielens_1m": ("ml-1m/ratings.dat", "::", movielens.read_movielens_1m),
}


def lines_for(name, lines=None):
    return [line.replace("\t", FORMATS[name][1]) for line in (LINES_100K if lines is None else lines)]


def write(folder, name, lines=None, end="\n"):
    path = folder / FORMATS[name][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(end.join([*lines_for(name, lines), ""]).encode("latin-1"))
    return path


def random_lines(n_users=60, n_movies=40, seed=0):
    rng = np.random.default_rng(seed)
    users, movies = np.nonzero(rng.random((n_users, n_movies)) < 0.4)
    ratings = rng.integers(1, 6, len(users))
    return [
        f"{u + 1}\t{m + 1}\t{r}\t88125{k:04d}" for k, (u, m, r) in enumerate(zip(users, movies, ratings, strict=True))
    ]


pytestmark = pytest.mark.parametrize("name", list(FORMATS))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_triplets(name, tmp_path, end):
    triplets = FORMATS[name][2](write(tmp_path, name, end=end))
    assert triplets.user_ids.tolist() == [22, 186, 196]
    assert triplets.movie_ids.tolist() == [51, 242, 302]
    assert triplets.user_ids[triplets.users].tolist() == [196, 186, 22, 186]
    assert triplets.movie_ids[triplets.movies].tolist() == [242, 302, 242, 51]
    assert triplets.values.tolist() == [3, 5, 1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("186\t302\t3", "four whole numbers"),
        ("186\t302\t3\t891717742\t7", "four whole numbers"),
        ("186 302 3 891717742", "four whole numbers"),
        ("186,302,3,891717742", "four whole numbers"),
        ("186\t302\tthree\t891717742", "four whole numbers"),
        ("186\t302\t3.5\t891717742", "four whole numbers"),
        ("", "four whole numbers"),
        ("186\t302\t3\t89171\xe97742", "four whole numbers"),
        ("186\t302\t0\t891717742", "rating from 1 to 5, got 0"),
        ("186\t302\t6\t891717742", "rating from 1 to 5, got 6"),
    ],
)
def test_broken_lines_are_named(name, tmp_path, line, message):
    path = write(tmp_path, name, [*LINES_100K[:2], line, *LINES_100K[2:]])
    with pytest.raises(ValueError, match=rf"{path.name}, line 3: expected.*{message}"):
        load(name, path=path)


def test_a_file_of_another_format_is_refused_at_its_first_line(name, tmp_path):
    path = tmp_path / "other"
    path.write_text("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n")
    with pytest.raises(ValueError, match="other, line 1: expected"):
        load(name, path=path)


def test_an_empty_file_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="is empty"):
        load(name, path=write(tmp_path, name, []))


def test_zero_filled(name, tmp_path):
    path = write(tmp_path, name)
    dataset = load(name, path=path, imputed=False, n=2, n_queries=1, seed=0)
    rows = np.concatenate([dataset.atoms, dataset.queries])
    assert sorted(rows.tolist()) == [[0, 2, 0], [0, 5, 0], [1, 0, 3]]
    assert not dataset.surrogate


def test_every_place_of_the_file_that_is_documented_works(name, tmp_path, empty_data_folder, monkeypatch):
    path = write(empty_data_folder, name, random_lines())
    expected = load(name, path=path, n=5).atoms
    for place in (None, path.parent, empty_data_folder, str(empty_data_folder)):
        np.testing.assert_array_equal(load(name, path=place, n=5).atoms, expected)
    assert not load(name, n=5, surrogate="if_missing").surrogate
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        load(name, n=5)


def test_atoms_and_queries_are_different_movies(name, tmp_path):
    path = write(tmp_path, name, random_lines())
    dataset = load(name, path=path, imputed=False, n=37, n_queries=3, seed=2)
    rows = np.concatenate([dataset.atoms, dataset.queries])
    every = load(name, path=path, imputed=False, n=39, n_queries=1, seed=5)
    assert sorted(map(bytes, rows)) == sorted(map(bytes, np.concatenate([every.atoms, every.queries])))
    with pytest.raises(ValueError, match=r"at most 40, the number of rated movies; got 38 \+ 3"):
        load(name, path=path, n=38, n_queries=3)


def test_users_can_be_drawn_too(name, tmp_path):
    path = write(tmp_path, name, random_lines())
    whole, part = (load(name, path=path, n=10, d=d, seed=2) for d in (None, 25))
    assert whole.atoms.shape == (10, 60)
    assert part.atoms.shape == (10, 25)
    columns = {bytes(column) for column in whole.atoms.T.copy()}
    assert {bytes(column) for column in part.atoms.T.copy()} < columns
    with pytest.raises(ValueError, match="d must be at most 60, the number of users; got 61"):
        load(name, path=path, d=61, n=10)


def test_the_fit_is_kept_until_the_file_changes(name, tmp_path, monkeypatch):
    fits = []
    original = movielens.factorise
    monkeypatch.setattr(movielens, "factorise", lambda *a, **k: fits.append(1) or original(*a, **k))
    path = write(tmp_path, name, random_lines())
    draws = [load(name, path=path, n=10, seed=seed) for seed in range(4)]
    assert len(fits) == 1
    assert (draws[0].atoms != draws[1].atoms).any()
    write(tmp_path, name, random_lines(seed=1))
    changed = load(name, path=path, n=10, seed=0)
    assert len(fits) == 2
    assert (changed.atoms != draws[0].atoms).any()
    load(name, path=path, n=10, n_factors=3)
    assert len(fits) == 3


def test_a_zero_filled_surrogate_is_refused(name):
    with pytest.raises(ValueError, match="imputed must be True for the surrogate"):
        load(name, imputed=False, surrogate=True)
