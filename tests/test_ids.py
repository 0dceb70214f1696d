"""Ids: what the user calls the atoms comes back with every result, through add, remove, files and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import banditmips as bm

RNG = np.random.default_rng(0)
ATOMS = 3 * RNG.normal(size=(30, 1)) + RNG.normal(size=(30, 2_000))
QUERIES = 1 + RNG.normal(size=(3, 2_000))
RANKED = np.argsort(-(QUERIES @ ATOMS.T), axis=1)
INTEGERS = [7 * i - 100 for i in range(30)]
STRINGS = [f"é{i:x}" for i in range(30)]
both_kinds = pytest.mark.parametrize("ids", [INTEGERS, STRINGS], ids=["integers", "strings"])


@both_kinds
@pytest.mark.parametrize("form", [list, tuple, np.array, lambda ids: np.array(ids, dtype=object)])
def test_results_carry_ids(ids, form):
    index = bm.BanditMIPS().fit(ATOMS, ids=form(ids))
    expected = np.array(ids)
    for k in (1, 4):
        batch, one = index.search(QUERIES, k), index.search(QUERIES[1], k)
        np.testing.assert_array_equal(batch.ids, expected[RANKED[:, :k]])
        np.testing.assert_array_equal(batch.ids, expected[batch.indices])
        np.testing.assert_array_equal(one.ids, batch.ids[1])
        np.testing.assert_array_equal(batch[1].ids, one.ids)
    assert index.search(QUERIES[:0], 2).ids.shape == (0, 2)
    np.testing.assert_array_equal(index.ids, expected)
    assert batch.ids.dtype == (np.int64 if ids is INTEGERS else expected.dtype)


def test_other_forms_of_integers_and_strings():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for ids in (range(30), np.arange(30, dtype=np.uint8), pandas.RangeIndex(30), np.arange(30, dtype=np.uint64)):
        assert bm.BanditMIPS().fit(ATOMS, ids=ids).search(QUERIES[0]).ids.tolist() == [RANKED[0, 0]]
    frame = pandas.DataFrame({"name": STRINGS})
    index = bm.BanditMIPS().fit(ATOMS, ids=frame["name"])
    found = index.search(QUERIES[0], k=2)
    assert found.ids.tolist() == [STRINGS[i] for i in RANKED[0, :2]]
    assert found.to_frame()["id"].tolist() == found.ids.tolist()
    assert "id" not in bm.search(ATOMS, QUERIES[0]).to_frame()


def test_strings_of_any_length():
    pytest.importorskip("numpy.dtypes")
    ids = np.array(STRINGS, dtype=np.dtypes.StringDType())
    index = bm.BanditMIPS().fit(ATOMS, ids=ids)
    assert index.search(QUERIES[0], k=2).ids.tolist() == [STRINGS[i] for i in RANKED[0, :2]]
    missing = np.array([*STRINGS[1:], np.nan], dtype=np.dtypes.StringDType(na_object=np.nan))
    with pytest.raises(TypeError, match="ids must be integers or strings, got nan"):
        index.fit(ATOMS, ids=missing)


def test_without_ids_there_are_none():
    index = bm.BanditMIPS().fit(ATOMS)
    assert index.ids is None
    assert index.search(QUERIES).ids is None
    assert bm.search(ATOMS, QUERIES).ids is None
    assert index.fit(ATOMS, ids=INTEGERS).ids is not None
    assert index.fit(ATOMS).ids is None


@both_kinds
def test_padding_is_no_atom(ids):
    index = bm.BanditMIPS().fit(ATOMS[:2], ids=ids[:2])
    result = index.search(QUERIES[0], k=4)
    assert result.indices.tolist()[2:] == [-1, -1]
    assert result.ids.tolist()[2:] == ([-1, -1] if ids is INTEGERS else ["", ""])
    assert set(result.ids.tolist()[:2]) == set(ids[:2])


@both_kinds
def test_add_and_remove_by_id(ids):
    index = bm.BanditMIPS().fit(ATOMS[:20], ids=ids[:20])
    index.add(ATOMS[20:], ids=ids[20:])
    np.testing.assert_array_equal(index.search(QUERIES, 3).ids, np.array(ids)[RANKED[:, :3]])
    first = ids[RANKED[0, 0]]
    index.remove([first])
    assert index.search(QUERIES[0]).ids.tolist() == [ids[RANKED[0, 1]]]
    index.remove(ids[RANKED[0, 1]])  # one id alone
    assert index.search(QUERIES[0]).ids.tolist() == [ids[RANKED[0, 2]]]
    index.remove([])
    index.add(2 * ATOMS[RANKED[0, 0]][np.newaxis], ids=[first])  # an atom in a new form
    found = index.search(QUERIES[0])
    assert (found.ids.tolist(), found.indices.tolist()) == ([first], [30])
    index.remove([first])
    with pytest.raises(ValueError, match="no atom of the index has"):
        index.remove([first])


@both_kinds
@pytest.mark.parametrize("changed", [False, True])
def test_ids_are_saved_and_pickled(tmp_path, ids, changed):
    index = bm.BanditMIPS().fit(ATOMS[:20], ids=ids[:20])
    if changed:
        index.add(ATOMS[20:], ids=ids[20:]).remove([ids[3]])
    index.save(tmp_path / "atoms.bm")
    loaded = bm.load(tmp_path / "atoms.bm")
    loaded.verify()
    for other in (loaded, pickle.loads(pickle.dumps(index))):
        np.testing.assert_array_equal(other.ids, index.ids)
        np.testing.assert_array_equal(other.search(QUERIES, 3).ids, index.search(QUERIES, 3).ids)
        if changed:
            with pytest.raises(ValueError, match="no atom of the index has"):
                other.remove([ids[3]])
            other.add(ATOMS[:1], ids=[ids[3]])
        with pytest.raises(ValueError, match="which the index has already"):
            other.add(ATOMS[:1], ids=[ids[4]])
    result = pickle.loads(pickle.dumps(index.search(QUERIES)))
    assert result.ids.tolist() == index.search(QUERIES).ids.tolist()


BAD_IDS = {
    "too few": (INTEGERS[1:], ValueError, "ids must hold one id for each of the 30 atoms, got 29"),
    "none": ([], ValueError, "ids must hold one id for each of the 30 atoms, got 0"),
    "twice": ([5, *range(29)], ValueError, "ids must be unique, got 5 for the atoms 0 and 6"),
    "the same text": (["x"] * 30, ValueError, "ids must be unique, got 'x' for the atoms 0 and 1"),
    "numbers": (np.arange(30.0), TypeError, "ids must be integers or strings, got dtype float64"),
    "booleans": ([True, *range(2, 31)], TypeError, "ids must be integers or strings, got True"),
    "a mixture": (["a", *range(29)], TypeError, "ids must be integers or strings, got a mixture of both"),
    "missing": ([None, *range(29)], TypeError, "ids must be integers or strings, got None"),
    "no atom": (range(-1, 29), ValueError, "ids must not hold -1, which stands for no atom"),
    "cut by NumPy": (["x\0", *STRINGS[1:]], ValueError, "ids must not end in a NUL character.*got 'x.x00'"),
    "empty": (["", *STRINGS[1:]], ValueError, "ids must not hold '', which stands for no atom"),
    "a matrix": (np.arange(30).reshape(6, 5), ValueError, r"ids must be one-dimensional, got shape \(6, 5\)"),
    "bytes": (bytes(range(30)), TypeError, "ids must be a list of integers or of strings, got b'"),
    "bytes in a list": ([b"x", *STRINGS[1:]], TypeError, "ids must be integers or strings, got b'x'"),
    "without order": (set(range(30)), TypeError, "ids must be a list of integers or of strings, got {"),
    "no list": (0.5, TypeError, "ids must be a list of integers or of strings, got 0.5"),
    "masked": (np.ma.masked_equal(np.arange(30), 3), TypeError, "ids must be there for every atom, got a masked array"),
    "too large": ([2**63, *range(29)], ValueError, "ids must be integers that fit in 64 bits, got 9223372036854775808"),
    "too large unsigned": (np.arange(30, dtype=np.uint64) + 2**63, ValueError, "ids must be integers that fit"),
}


@pytest.mark.parametrize(("ids", "error", "message"), BAD_IDS.values(), ids=BAD_IDS.keys())
def test_bad_ids_are_named_and_leave_the_index_as_it_was(ids, error, message):
    index = bm.BanditMIPS().fit(ATOMS, ids=INTEGERS)
    with pytest.raises(error, match=message):
        index.fit(ATOMS, ids=ids)
    with pytest.raises(error, match=message):
        index.add(ATOMS, ids=ids)
    assert index.n_atoms == 30
    assert index.search(QUERIES[0]).ids.tolist() == [INTEGERS[RANKED[0, 0]]]


def test_ids_that_do_not_fit_the_index():
    named, plain = bm.BanditMIPS().fit(ATOMS, ids=STRINGS), bm.BanditMIPS().fit(ATOMS)
    with pytest.raises(ValueError, match="ids must be given for the 2 new atoms"):
        named.add(ATOMS[:2])
    with pytest.raises(ValueError, match="ids cannot be given for new atoms alone"):
        plain.add(ATOMS[:2], ids=["a", "b"])
    with pytest.raises(TypeError, match="ids must be strings as the index has them, got integers"):
        named.add(ATOMS[:2], ids=[1, 2])
    with pytest.raises(TypeError, match="ids must be strings as the index has them, got integers"):
        named.remove([1])
    with pytest.raises(ValueError, match="ids holds 'nobody', which no atom of the index has"):
        named.remove([STRINGS[0], "nobody"])
    with pytest.raises(ValueError, match=f"ids holds '{STRINGS[4]}', which the index has already"):
        named.add(ATOMS[:1], ids=[STRINGS[4]])
    assert named.n_atoms == 30
    assert named.n_removed == 0


def test_ids_count_as_memory_of_the_index():
    plain, named = bm.BanditMIPS().fit(ATOMS), bm.BanditMIPS().fit(ATOMS, ids=INTEGERS)
    assert named.extra_bytes == plain.extra_bytes + 30 * 8


@pytest.mark.parametrize("wrong", [b"\x05", None, {5}, 5.0, [5.0], [b"5"], True])
def test_nothing_is_removed_by_what_is_no_id(wrong):
    index = bm.BanditMIPS().fit(ATOMS, ids=INTEGERS)
    with pytest.raises(TypeError, match="ids must be"):
        index.remove(wrong)
    assert set(index.search(QUERIES[0], 30).ids.tolist()) == set(INTEGERS)
