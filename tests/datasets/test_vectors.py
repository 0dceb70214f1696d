import numpy as np
import pytest

from banditmips.datasets import load
from banditmips.datasets.vectors import read_fvecs


def fvecs_bytes(vectors):
    vectors = np.asarray(vectors, dtype="<f4")
    widths = np.full((len(vectors), 1), vectors.shape[1], dtype="<i4")
    return np.hstack([widths.view("<f4"), vectors]).tobytes()


@pytest.fixture
def vectors():
    return np.random.default_rng(0).integers(0, 219, (500, 128)).astype(np.float32)


@pytest.fixture
def base(tmp_path, vectors):
    path = tmp_path / "sift" / "sift_base.fvecs"
    path.parent.mkdir()
    path.write_bytes(fvecs_bytes(vectors))
    return path


def test_vectors_are_mapped_not_copied(base, vectors):
    found = read_fvecs(base)
    np.testing.assert_array_equal(found, vectors)
    np.testing.assert_array_equal(read_fvecs(base, transpose=True), vectors.T)
    assert found.dtype == np.float32
    assert not found.flags.owndata
    assert not found.flags.writeable


def test_a_single_vector_of_width_one(tmp_path):
    path = tmp_path / "one.fvecs"
    path.write_bytes(fvecs_bytes([[2.5]]))
    assert read_fvecs(path).tolist() == [[2.5]]


@pytest.mark.parametrize("missing", [1, 3, 4, 200, 515])
def test_truncated_files_say_where(base, missing):
    base.write_bytes(base.read_bytes()[:-missing])
    with pytest.raises(ValueError, match=rf"truncated: vector 499, at byte {499 * 516}, has {516 - missing} of 516"):
        read_fvecs(base)


def test_another_width_says_where(base, vectors):
    content = fvecs_bytes(vectors[:20]) + fvecs_bytes(vectors[:5, :64]) + fvecs_bytes(vectors)
    base.write_bytes(content)
    with pytest.raises(ValueError, match=rf"byte {20 * 516}: expected the width 128.*got 64 \(vector 20\)"):
        read_fvecs(base)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"abc", "3 bytes"),
        (b"\0\0\0\0", "got 0"),
        (b"\xff\xff\xff\xff" + bytes(8), "got -1"),
        (b"\0\0\0\x80", "byte 0: expected the width"),
        (b"\x80\0\0\0", "truncated: vector 0, at byte 0, has 4 of 516"),
    ],
)
def test_files_of_something_else(tmp_path, content, message):
    path = tmp_path / "bad.fvecs"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"bad.fvecs.*{message}"):
        read_fvecs(path)


def test_sift_rows_are_entries_of_the_descriptors(base, vectors):
    dataset = load("sift_1m", path=base, n=125, n_queries=3, seed=1)
    assert dataset.atoms.shape == (125, 500)
    assert not dataset.surrogate
    rows = np.concatenate([dataset.atoms, dataset.queries])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, vectors.T.copy()))


def test_sift_descriptors_can_be_drawn(base, vectors, monkeypatch):
    monkeypatch.setattr("banditmips.datasets.vectors._VECTORS_PER_BLOCK", 30)
    whole, part, smaller = (load("sift_1m", path=base, n=100, d=d, seed=4) for d in (500, 200, 50))
    kept = [np.flatnonzero((column == whole.atoms.T).all(axis=1))[0] for column in part.atoms.T]
    assert kept == sorted(kept)
    assert len(set(kept)) == 200
    assert {bytes(c) for c in smaller.atoms.T.copy()} < {bytes(c) for c in part.atoms.T.copy()}
    with pytest.raises(ValueError, match="d must be at most 500"):
        load("sift_1m", path=base, d=501)
    with pytest.raises(ValueError, match="n \\+ n_queries must be at most 128"):
        load("sift_1m", path=base, n=128)


def test_surrogate_descriptors():
    dataset = load("sift_1m", n=127, d=12_000, surrogate=True)
    rows = np.concatenate([dataset.atoms, dataset.queries])
    assert rows.min() == 0
    assert rows.max() <= 218
    assert (rows == np.floor(rows)).all()
    # Rounding down shortens the descriptors of length 512 a little, the cut at 218 a few of them by more.
    lengths = np.linalg.norm(rows, axis=0)
    assert lengths.max() <= 512
    assert np.quantile(lengths, 0.01) > 500
    small = load("sift_1m", n=127, d=100, surrogate=True)
    np.testing.assert_array_equal(small.atoms, dataset.atoms[:, :100])
