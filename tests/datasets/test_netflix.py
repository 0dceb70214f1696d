import numpy as np
import pytest

from banditmips.datasets import load, netflix
from banditmips.datasets.netflix import read_netflix

FIRST = "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n2:\n1488844,1,2004-12-31\n"
SECOND = "17770:\n7,4,2005-01-01\n822109,2,2000-02-29\n"


def contents(triplets):
    users, movies = triplets.user_ids[triplets.users], triplets.movie_ids[triplets.movies]
    return list(zip(movies.tolist(), users.tolist(), triplets.values.tolist(), strict=True))


EXPECTED = [
    (1, 1488844, 3.0),
    (1, 822109, 5.0),
    (2, 1488844, 1.0),
    (17770, 7, 4.0),
    (17770, 822109, 2.0),
]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "netflix" / f"combined_data_{i}.txt" for i in (1, 2)]
    paths[0].parent.mkdir()
    for path, text in zip(paths, (FIRST, SECOND), strict=True):
        path.write_bytes(text.encode())
    return paths


@pytest.mark.parametrize("chunk", [1, 2, 7, 16, 23, 50, 1 << 24])
def test_chunks_do_not_matter(files, chunk, monkeypatch):
    monkeypatch.setattr(netflix, "_CHUNK_BYTES", chunk)
    assert contents(read_netflix(files)) == EXPECTED


@pytest.mark.parametrize("change", [lambda t: t.replace("\n", "\r\n"), lambda t: t.removesuffix("\n")])
@pytest.mark.parametrize("chunk", [5, 1 << 24])
def test_other_line_ends(files, change, chunk, monkeypatch):
    monkeypatch.setattr(netflix, "_CHUNK_BYTES", chunk)
    for path, text in zip(files, (FIRST, SECOND), strict=True):
        path.write_bytes(change(text).encode())
    assert contents(read_netflix(files)) == EXPECTED


@pytest.mark.parametrize(("n_movies", "ratings"), [(1, 2), (2, 3), (3, 5), (9, 5)])
@pytest.mark.parametrize("chunk", [25, 1 << 24])
def test_first_movies_only(files, n_movies, ratings, chunk, monkeypatch):
    monkeypatch.setattr(netflix, "_CHUNK_BYTES", chunk)
    assert contents(read_netflix(files, n_movies=n_movies)) == EXPECTED[:ratings]


def test_one_file_for_each_movie(files, tmp_path, monkeypatch):
    movies = [
        part.split("\n", 1)
        for part in (FIRST + SECOND).replace("\n2:", "|2:").replace("\n17770:", "|17770:").split("|")
    ]
    folder = tmp_path / "other" / "netflix" / "training_set"
    folder.mkdir(parents=True)
    for head, ratings in movies:
        (folder / f"mv_{int(head[:-1]):07}.txt").write_text(f"{head}\n{ratings}")
    together = load("netflix", path=files[0].parent, imputed=False, n=2, d=2)
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path / "other"))
    for path in (None, folder, folder.parent):
        apart = load("netflix", path=path, imputed=False, n=2, d=2)
        assert not apart.surrogate
        np.testing.assert_array_equal(apart.atoms, together.atoms)
    assert contents(read_netflix(sorted(folder.iterdir()))) == EXPECTED
    assert contents(read_netflix(sorted(folder.iterdir()), n_movies=2)) == EXPECTED[:3]


@pytest.mark.parametrize(
    "line",
    [
        "822109,0,2005-05-13",
        "822109,6,2005-05-13",
        "822109,55,2005-05-13",
        "822109;5;2005-05-13",
        "822109\t5\t2005-05-13",
        "822109,5,2005-05-1",
        "822109,5,13.05.2005",
        "822109,5",
        "822109,5,2005-05-13,1",
        ",5,2005-05-13",
        "0,5,2005-05-13",
        "8a2109,5,2005-05-13",
        "-82109,5,2005-05-13",
        "8221090000,5,2005-05-13",
        "8\xe92109,5,2005-05-13",
        "x:",
        ":",
        "0:",
        "",
    ],
)
@pytest.mark.parametrize("chunk", [20, 1 << 24])
def test_broken_lines_are_named(files, line, chunk, monkeypatch):
    monkeypatch.setattr(netflix, "_CHUNK_BYTES", chunk)
    lines = FIRST.splitlines()
    files[0].write_bytes("\n".join([*lines[:4], line, *lines[4:], ""]).encode("latin-1"))
    with pytest.raises(ValueError, match=r"combined_data_1\.txt, line 5: expected 'movie:' or 'customer,rating"):
        read_netflix(files)


def test_a_broken_line_in_the_second_file(files):
    files[1].write_text(SECOND + "822109,2,2000-02")
    with pytest.raises(ValueError, match=r"combined_data_2\.txt, line 4: .*got b'822109,2,2000-02'"):
        load("netflix", path=files[0].parent)


def test_ratings_before_any_movie(files):
    files[1].write_text("7,4,2005-01-01\n" + SECOND)
    with pytest.raises(ValueError, match=r"combined_data_2\.txt, line 1: expected a line such as '123:'"):
        read_netflix(files)


def test_empty_files(files):
    files[0].write_bytes(b"")
    with pytest.raises(ValueError, match=r"combined_data_1\.txt is empty"):
        read_netflix(files)
    with pytest.raises(ValueError, match="no files"):
        read_netflix([])


def test_zero_filled(files):
    dataset = load("netflix", path=files[0].parent.parent, imputed=False, n=2, n_queries=1)
    rows = np.concatenate([dataset.atoms, dataset.queries])
    assert sorted(rows.tolist()) == [[0, 0, 1], [0, 5, 3], [4, 2, 0]]
    assert dataset.params["n_movies"] == 6000
    one_file = load("netflix", path=files[0], imputed=False, n=1, n_queries=1)
    assert sorted([*one_file.atoms.tolist(), *one_file.queries.tolist()]) == [[0, 1], [5, 3]]


def test_imputed(tmp_path):
    rng = np.random.default_rng(0)
    text = ""
    for movie in range(1, 31):
        users = np.flatnonzero(rng.random(50) < 0.6) + 1
        text += f"{movie}:\n" + "".join(f"{u},{rng.integers(1, 6)},2005-09-06\n" for u in users)
    path = tmp_path / "combined_data_1.txt"
    path.write_text(text)
    dataset = load("netflix", path=path, n=20, d=40, n_movies=25, n_queries=5)
    assert dataset.atoms.shape == (20, 40)
    assert not dataset.surrogate
    assert 2 < dataset.atoms.min() < dataset.atoms.max() < 4
    with pytest.raises(ValueError, match="at most 25, the number of rated movies"):
        load("netflix", path=path, n=25, n_movies=25)


def test_bad_number_of_movies():
    with pytest.raises(ValueError, match="n_movies must be at least 1"):
        load("netflix", n_movies=0)
