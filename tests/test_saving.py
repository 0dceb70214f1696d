"""Saved indices: what is loaded answers as what was saved, damage is found, and nothing is read without need."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips._saved import SavedFile, read_file
from banditmips._saved_format import write_file
from banditmips.atoms import DenseStore

GOLDEN = Path(__file__).parent / "data" / "golden_index_v1.bm"


def planted(n=30, d=2000, seed=0, m=4):
    """Return atoms whose means differ, in no order, and m queries."""
    rng = np.random.default_rng(seed)
    atoms = rng.permutation(np.linspace(-8.0, 8.0, n))[:, np.newaxis] + rng.normal(size=(n, d))
    return atoms, 1.0 + 0.5 * rng.normal(size=(m, d))


ATOMS, QUERIES = planted()
SPARSE = scipy.sparse.csr_array(np.where(np.abs(ATOMS) > 6.0, ATOMS, 0.0))

INDICES = {
    "C order": lambda: bm.BanditMIPS().fit(ATOMS),
    "Fortran order": lambda: bm.BanditMIPS().fit(np.asfortranarray(ATOMS)),
    "float16": lambda: bm.BanditMIPS().fit(ATOMS.astype(np.float16)),
    "float32": lambda: bm.BanditMIPS().fit(ATOMS.astype(np.float32)),
    "int8": lambda: bm.BanditMIPS().fit(ATOMS.astype(np.int8)),
    "bool": lambda: bm.BanditMIPS().fit(ATOMS > 0),
    "csr": lambda: bm.BanditMIPS().fit(SPARSE),
    "csc": lambda: bm.BanditMIPS().fit(SPARSE.tocsc()),
    "joined": lambda: bm.BanditMIPS().fit(ATOMS[:10]).add(SPARSE[10:20]).add(np.asfortranarray(ATOMS[20:])),
    "removed": lambda: bm.BanditMIPS().fit(ATOMS).remove([3, 7, 11]),
    "coordinates": lambda: bm.BanditMIPS(layout="coordinates").fit(ATOMS),
    "full": lambda: bm.BanditMIPS(layout="full").fit(ATOMS),
    "codes of one bit": lambda: bm.BanditMIPS(max_extra_memory=40_000).fit(ATOMS),
    "buckets": lambda: bm.BanditMIPS(bucket_size=7).fit(ATOMS),
    "not validated": lambda: bm.BanditMIPS(validate=False).fit(ATOMS),
    "not validated buckets": lambda: bm.BanditMIPS(validate=False, bucket_size=7).fit(ATOMS),
    "options": lambda: bm.BanditMIPS(
        delta=0.2,
        epsilon=3.0,
        bound="bernstein",
        value_range=(-15, 15),
        absolute=True,
        rescore=False,
        seed=11,
        trace=True,
    ).fit(ATOMS),
    "more options": lambda: bm.BanditMIPS(
        objective="cosine", sampling="weighted", beta=0.7, replacement=True, budget=10_000, n_jobs=2, seed=2**63 - 1
    ).fit(ATOMS),
    "sigma": lambda: bm.BanditMIPS(bound="hoeffding_serfling", sigma=7.5).fit(ATOMS),
    "optimal": lambda: bm.BanditMIPS(sampling="optimal").fit(ATOMS),
}


def fields_of(result):
    """All fields of a result, traces included, but for the plan in words, which tells how the atoms are kept."""
    fields = asdict(result)
    traces = fields["trace"]
    for trace in traces if isinstance(traces, tuple) else [traces] if traces else []:
        del trace["plan"]
    return fields


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.bm"


@pytest.mark.parametrize("make", INDICES.values(), ids=INDICES.keys())
def test_a_loaded_index_answers_as_the_saved_one(make, path):
    index = make()
    index.save(path)
    loaded = bm.load(path)
    loaded.verify()
    for options in ({}, {"minimise": "multiplies"}, {"minimise": "multiplies", "rescore": False, "trace": True}):
        saved = index.search(QUERIES, 3, **options)
        np.testing.assert_equal(asdict(loaded.search(QUERIES, 3, **options)), asdict(saved))
    assert (loaded.n_atoms, loaded.n_coordinates) == (index.n_atoms, index.n_coordinates)
    # A matrix given by columns is kept as it is; its file holds it by rows.
    assert loaded.extra_bytes >= index.extra_bytes
    mask = np.arange(30) % 2 == 0
    np.testing.assert_equal(asdict(loaded.search(QUERIES, 3, mask=mask)), asdict(index.search(QUERIES, 3, mask=mask)))


@pytest.mark.parametrize("atoms", [ATOMS[::-1, ::-1], ATOMS.astype(">f8")], ids=["backwards", "big-endian"])
def test_atoms_in_an_order_of_their_own_are_saved_in_a_plain_one(atoms, path):
    index = bm.BanditMIPS().fit(atoms)
    index.save(path)
    saved, loaded = index.search(QUERIES, 3), bm.load(path).search(QUERIES, 3)
    np.testing.assert_array_equal(loaded.indices, saved.indices)
    np.testing.assert_allclose(loaded.scores, saved.scores, rtol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": np.int64(3)},
        {"delta": np.float32(0.25)},
        {"rescore": np.bool_(False)},
        {"budget": np.int32(5000)},
        {"bound": "hoeffding", "sigma": np.float32(2.5)},
        {"bound": "bernstein", "value_range": np.array([-15.0, 15.0])},
    ],
    ids=str,
)
def test_options_given_as_numpy_scalars_can_be_saved(options, path):
    index = bm.BanditMIPS(**options).fit(ATOMS)
    index.save(path)
    np.testing.assert_equal(asdict(bm.load(path).search(QUERIES)), asdict(index.search(QUERIES)))


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
def test_a_loaded_index_can_grow_shrink_and_be_saved_again(layout, minimise, path):
    options = {"layout": layout, "minimise": minimise, "trace": True}
    bm.BanditMIPS(**options).fit(ATOMS[:20]).remove([2]).save(path)
    loaded = bm.load(path).add(ATOMS[20:]).remove([5, 25])
    # Codes are about the mean of the atoms that came first.
    first, later = (ATOMS[:20], ATOMS[20:]) if layout == "codes" else (ATOMS, ATOMS[:0])
    fresh = bm.BanditMIPS(**options).fit(first)
    fresh = (fresh.add(later) if len(later) else fresh).remove([2, 5, 25])
    expected = fields_of(fresh.search(QUERIES, 4))
    np.testing.assert_equal(fields_of(loaded.search(QUERIES, 4)), expected)
    loaded.save(path)
    np.testing.assert_equal(fields_of(loaded.search(QUERIES, 4)), expected)
    np.testing.assert_equal(fields_of(bm.load(path).search(QUERIES, 4)), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file go")
def test_an_index_may_be_saved_over_the_file_it_was_loaded_from(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    loaded = bm.load(path)
    expected = asdict(loaded.search(QUERIES, 3))
    for _ in range(2):
        loaded.save(path)
        loaded.verify()
        np.testing.assert_equal(asdict(loaded.search(QUERIES, 3)), expected)
        loaded = bm.load(path)
        np.testing.assert_equal(asdict(loaded.search(QUERIES, 3)), expected)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_matrix_that_was_kept_by_row_and_by_column_is_so_again(form, path):
    index = bm.BanditMIPS(layout="full").fit(SPARSE.asformat(form))
    index.save(path)
    store = bm.load(path)._known.store
    assert store.by_row is not None
    assert store.by_column is not None


def test_saving_leaves_the_atoms_as_they_are(path):
    before = ATOMS.copy()
    bm.BanditMIPS().fit(ATOMS).save(path)
    loaded = bm.load(path)
    loaded.search(QUERIES)
    np.testing.assert_array_equal(ATOMS, before)
    contents = path.read_bytes()
    loaded.search(QUERIES, objective="cosine")
    assert path.read_bytes() == contents


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array], ids=["C order", "Fortran order", "sparse"]
)
def test_loading_does_not_hold_the_atoms_in_memory(form, path):
    atoms = form(np.ones((100, 10_000)))
    bm.BanditMIPS().fit(atoms).save(path)
    bm.load(path)
    tracemalloc.start()
    try:
        index = bm.load(path)
        index.search(np.ones(10_000), budget=6400, minimise="multiplies", rescore=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4


@pytest.mark.parametrize("options", [{"layout": "codes"}, {"layout": "coordinates", "sampling": "uniform"}], ids=str)
def test_loading_does_not_read_the_atoms(options, path):
    """Zeros written over all of the atoms are noticed by exact scores alone, where checksums are not asked for."""
    options = {"minimise": "multiplies", "rescore": False, "budget": 30 * 60, **options}  # too little for a row
    bm.BanditMIPS(**options).fit(ATOMS).save(path)
    overwrite(path, "atoms0", bytes(ATOMS.nbytes))
    index = bm.load(path, verify="never")
    expected = bm.BanditMIPS(**options).fit(ATOMS).search(QUERIES)
    np.testing.assert_equal(asdict(index.search(QUERIES)), asdict(expected))
    np.testing.assert_array_equal(index.search(QUERIES, delta=0.0, budget=None).scores, 0.0)


# --- damage -----------------------------------------------------------------------------------------------------------


def overwrite(path, name, data, start=0):
    """Write bytes over a part of a block of a saved file."""
    offset = read_file(path).arrays[name].offset
    with path.open("r+b") as file:
        file.seek(offset + start)
        file.write(data)


def flip(path, name, position):
    array = read_file(path).arrays[name]
    byte = array.reshape(-1, order="A").view(np.uint8)[position]
    overwrite(path, name, bytes([byte ^ 0x01]), start=position)


@pytest.mark.parametrize("position", [0, -1])
@pytest.mark.parametrize("kind", ["removed", "buckets", "joined", "csr"])
def test_verify_names_the_block_where_a_byte_flipped(kind, position, path):
    INDICES[kind]().save(path)
    blocks = {name: array.nbytes for name, array in read_file(path).arrays.items()}
    assert len(blocks) >= 6
    for name, size in blocks.items():
        if size == 0 or name.endswith(("_indices", "_indptr")):
            continue  # the next test looks at these, at a safe distance
        INDICES[kind]().save(path)
        flip(path, name, position % size)
        try:
            index = bm.load(path)
        except bm.CorruptFileError as error:
            named = error.where
        else:
            with pytest.raises(bm.CorruptFileError) as caught:
                index.verify()
            named = caught.value.where
            assert str(path) in str(caught.value)
        assert named == f"block {name!r}"


VERIFYING = """
    import sys
    import numpy as np
    import banditmips as bm

    try:
        index = bm.load(sys.argv[1])
        index.search(np.ones(index.n_coordinates), delta=0.0)
        index.verify()
    except bm.CorruptFileError as error:
        print(error.where)
"""


@pytest.mark.parametrize("name", ["atoms0_indices", "atoms0_indptr"])
def test_a_damaged_sparse_file_is_an_error_and_not_a_crash(name, path):
    """In another process, since the question is whether it survives."""
    bm.BanditMIPS().fit(SPARSE).save(path)
    overwrite(path, name, b"\x40", start=4 * 10 + 3)
    command = [sys.executable, "-c", textwrap.dedent(VERIFYING), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, f"block {name!r}"), done.stderr[:500]


@pytest.mark.parametrize("kind", ["C order", "Fortran order", "removed", "buckets", "joined", "not validated"])
def test_no_answer_comes_from_a_damaged_block(kind, path):
    """By default the blocks are compared when an index is first used; damage is found in each of them."""
    INDICES[kind]().save(path)
    blocks = {name: array for name, array in read_file(path).arrays.items() if array.size}
    for name, array in blocks.items():
        INDICES[kind]().save(path)
        flip(path, name, array.nbytes // 2)
        with pytest.raises(bm.CorruptFileError) as caught:
            bm.load(path).search(QUERIES[0])
        assert caught.value.where == f"block {name!r}"
        with pytest.raises(bm.CorruptFileError):
            bm.load(path, verify="now")


@pytest.mark.parametrize(
    "use", [lambda i: i.search(QUERIES[0]), lambda i: i.explain(QUERIES[0]), lambda i: i.add(ATOMS), pickle.dumps]
)
def test_every_use_of_a_damaged_file_is_an_error(use, path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    flip(path, "atoms0", 4321)
    index = bm.load(path)
    assert (index.n_atoms, index.n_coordinates) == ATOMS.shape
    with pytest.raises(bm.CorruptFileError, match=r"index\.bm: block 'atoms0'"):
        use(index)
    with pytest.raises(bm.CorruptFileError, match=r"index\.bm: block 'atoms0'"):
        index.save(path.with_name("other.bm"))
    assert not path.with_name("other.bm").exists()


@pytest.mark.parametrize("verify", ["lazy", "now", "never"])
@pytest.mark.parametrize("cut", [0, 100, 0.5, -1])
def test_a_file_cut_short_after_loading_is_an_error_and_not_the_end(cut, verify, path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    index = bm.load(path, verify=verify)
    fresh = bm.load(path, verify=verify)
    index.search(QUERIES[0])
    size = path.stat().st_size
    os.truncate(path, int(cut * size) if 0 < cut < 1 else cut % size)
    for which in (index, fresh):
        with pytest.raises(bm.CorruptFileError, match=r"index\.bm: .*(changed since it was opened|the file ends)"):
            which.search(QUERIES[0])


def test_a_file_written_over_after_loading_is_an_error(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    index = bm.load(path)
    index.search(QUERIES[0])
    os.utime(path, ns=(0, 0))
    with pytest.raises(bm.CorruptFileError, match="changed since it was opened"):
        index.search(QUERIES[0])


@pytest.mark.parametrize("atoms", [ATOMS, ATOMS > 0], ids=["float64", "bool"])
@pytest.mark.parametrize("options", [{}, {"validate": False, "layout": "none"}], ids=str)
def test_loading_leaves_the_atoms_for_later(atoms, options, path):
    bm.BanditMIPS(**options).fit(atoms).save(path)
    compared = []
    with mock.patch.object(SavedFile, "_compare", lambda file, name: compared.append(name)):
        bm.load(path)
    assert "atoms0" not in compared
    assert ("squared_norms" in compared) is (options == {})


def test_verify_has_three_values(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    with pytest.raises(ValueError, match="verify must be one of 'now', 'lazy', 'never', got 'later'"):
        bm.load(path, verify="later")


def test_a_pickled_index_needs_no_file(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    index = pickle.loads(pickle.dumps(bm.load(path)))
    os.truncate(path, 10)
    assert index.search(QUERIES[0]).indices == bm.BanditMIPS().fit(ATOMS).search(QUERIES[0]).indices
    index.verify()


def test_a_fifo_is_refused_at_once(path):
    os.mkfifo(path)
    with pytest.raises(bm.CorruptFileError, match="it is a FIFO, and only regular files can be read"):
        bm.load(path)
    with pytest.raises(FileExistsError, match="is a FIFO, and only regular files are replaced"):
        bm.BanditMIPS().fit(ATOMS).save(path)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_truncated_file_is_refused(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    contents = path.read_bytes()
    for length in (0, 5, 79, 200, 1000, len(contents) // 2, len(contents) - 1):
        path.write_bytes(contents[:length])
        with pytest.raises(bm.CorruptFileError, match=r"index\.bm"):
            bm.load(path)


def test_a_file_of_another_kind_is_refused(path):
    write_file(path, {"kind": "recipe"}, {})
    with pytest.raises(bm.CorruptFileError, match=r"index\.bm.*'recipe', not an index"):
        bm.load(path)
    np.save(path.with_suffix(".npy"), ATOMS)
    with pytest.raises(bm.CorruptFileError, match="not a banditmips file"):
        bm.load(path.with_suffix(".npy"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        bm.load(path.with_name("nowhere.bm"))


def change_settings(metadata, arrays):
    metadata["settings"]["delta"] = 2.0


def add_setting(metadata, arrays):
    metadata["settings"]["gamma"] = 1.0


def lose_setting(metadata, arrays):
    del metadata["settings"]["value_range"]


def change_shape(metadata, arrays):
    metadata["shape"] = [30, 2001]


def lose_atoms(metadata, arrays):
    del arrays["atoms0"]


def shorten_norms(metadata, arrays):
    arrays["squared_norms"] = arrays["squared_norms"][:-1]


def shorten_cache(metadata, arrays):
    arrays["cache_prefix"] = arrays["cache_prefix"][:-1]


def flatten_cache(metadata, arrays):
    arrays["cache_prefix"] = arrays["cache_prefix"].ravel()


def no_order(metadata, arrays):
    del arrays["cache_order"]


def keep_nothing(metadata, arrays):
    arrays["cache_order"], arrays["cache_prefix"] = arrays["cache_order"][:0], arrays["cache_prefix"][:, :0]


def flatten_atoms(metadata, arrays):
    arrays["atoms0"] = arrays["atoms0"].ravel()


def order_outside(metadata, arrays):
    arrays["cache_order"][5] = 2000


def order_negative(metadata, arrays):
    arrays["cache_order"][5] = -1


def order_twice(metadata, arrays):
    arrays["cache_order"][5] = arrays["cache_order"][6]


def order_of_floats(metadata, arrays):
    arrays["cache_order"] = arrays["cache_order"].astype(np.float64)


def cache_of_integers(metadata, arrays):
    arrays["cache_prefix"] = arrays["cache_prefix"].astype(np.int8)


def no_stores(metadata, arrays):
    metadata["stores"] = []


def huge_shape(metadata, arrays):
    metadata["shape"] = [1 << 62, 1 << 62]


def shape_of_flags(metadata, arrays):
    metadata["shape"] = [True, 2000]


def norms_of_another_type(metadata, arrays):
    arrays["squared_norms"] = arrays["squared_norms"].astype(np.float32)


def removed_odd(metadata, arrays):
    arrays["removed"] = np.full(30, 2, dtype=np.uint8).view(np.bool_)


def rename_store(metadata, arrays):
    metadata["stores"] = ["chunked"]


def codes_of(name, value):
    def change(metadata, arrays):
        metadata["codes"][name] = value

    change.__name__ = f"{name}={value!r}"
    return change


def codes_unknown(metadata, arrays):
    metadata["codes"] = [2048, 1, 0]


def codes_lose_seed(metadata, arrays):
    del metadata["codes"]["seed"]


def lose_codes(name):
    def change(metadata, arrays):
        del arrays[f"codes_{name}"]

    change.__name__ = f"lose {name}"
    return change


def shorten_codes(name):
    def change(metadata, arrays):
        array = arrays[f"codes_{name}"]
        arrays[f"codes_{name}"] = array[:, :-1] if name in ("scales", "errors") else array[:-1]

    change.__name__ = f"shorten {name}"
    return change


def narrow_codes(name):
    def change(metadata, arrays):
        arrays[f"codes_{name}"] = arrays[f"codes_{name}"][:, 1:]

    change.__name__ = f"narrow {name}"
    return change


def retype_codes(name, dtype):
    def change(metadata, arrays):
        arrays[f"codes_{name}"] = arrays[f"codes_{name}"].astype(dtype)

    change.__name__ = f"{name} of {dtype}"
    return change


def shorten_all_codes(metadata, arrays):
    for name in ("along", "first", "rest", "finer"):
        arrays[f"codes_{name}"] = arrays[f"codes_{name}"][:-1]
    for name in ("scales", "errors"):
        arrays[f"codes_{name}"] = arrays[f"codes_{name}"][:, :-1]


def flatten_codes(metadata, arrays):
    arrays["codes_scales"] = arrays["codes_scales"].ravel()


def fewer_rounds(metadata, arrays):
    for name in ("codes_scales", "codes_errors"):
        arrays[name] = arrays[name][:-1]


def codes_by_column(metadata, arrays):
    arrays["codes_first"] = np.asfortranarray(arrays["codes_first"])


CODES = ("centre", "along", "scales", "errors", "first", "rest", "finer")


def refuses(index, change, path):
    index.save(path)
    saved = read_file(path)
    metadata, arrays = saved.metadata, {name: np.array(array) for name, array in saved.arrays.items()}
    change(metadata, arrays)
    write_file(path, metadata, arrays)
    with pytest.raises(bm.CorruptFileError, match=r"index\.bm"):
        bm.load(path)


@pytest.mark.parametrize(
    "change",
    [
        change_settings,
        add_setting,
        lose_setting,
        change_shape,
        lose_atoms,
        shorten_norms,
        flatten_atoms,
        rename_store,
        removed_odd,
        no_stores,
        huge_shape,
        shape_of_flags,
        norms_of_another_type,
    ],
)
def test_a_sound_file_with_odd_contents_is_refused(change, path):
    refuses(bm.BanditMIPS().fit(ATOMS), change, path)


@pytest.mark.parametrize(
    "change",
    [
        shorten_cache,
        flatten_cache,
        no_order,
        keep_nothing,
        order_outside,
        order_negative,
        order_twice,
        order_of_floats,
        cache_of_integers,
    ],
)
def test_a_sound_file_with_odd_coordinates_is_refused(change, path):
    refuses(bm.BanditMIPS(layout="coordinates").fit(ATOMS), change, path)


@pytest.mark.parametrize(
    "change",
    [
        codes_unknown,
        codes_lose_seed,
        shorten_all_codes,
        flatten_codes,
        fewer_rounds,
        codes_by_column,
        *(codes_of("n_cells", value) for value in (0, -64, 63, 64, 1984, 2112, 1 << 40, 1 << 70, 2048.0, None)),
        *(codes_of("n_bits", value) for value in (0, -1, 1, 5, 1 << 40, True, "2")),
        *(codes_of("seed", value) for value in (-1, 1 << 63, 0.5)),
        *(lose_codes(name) for name in CODES),
        *(shorten_codes(name) for name in CODES),
        *(narrow_codes(name) for name in ("first", "finer")),
        *(retype_codes(name, "i8") for name in CODES),
        retype_codes("centre", "f2"),
        retype_codes("scales", "f8"),
    ],
    ids=lambda change: change.__name__,
)
def test_a_sound_file_with_odd_codes_is_refused(change, path):
    """Their sizes are what the core reads by."""
    index = bm.BanditMIPS(max_extra_memory=ATOMS.nbytes // 4).fit(ATOMS)
    codes = index._known.codes
    assert codes.n_cells == 2048
    assert codes.n_bits > 1  # there is something of every kind but the rest
    refuses(index, change, path)


def id_outside_unicode(metadata, arrays):
    arrays["ids_text"][3, 0] = 0x110000


def ids_without_characters(metadata, arrays):
    arrays["ids_text"] = arrays["ids_text"][:, :0]


def fewer_ids(metadata, arrays):
    arrays["ids_text"] = arrays["ids_text"][:-1]


def ids_of_floats(metadata, arrays):
    arrays["ids"] = np.zeros(len(arrays.pop("ids_text")))


@pytest.mark.parametrize("change", [id_outside_unicode, ids_without_characters, fewer_ids, ids_of_floats])
def test_a_sound_file_with_odd_ids_is_refused(change, path):
    refuses(bm.BanditMIPS().fit(ATOMS, ids=[f"atom {i}" for i in range(30)]), change, path)


def test_codes_of_the_first_signs_alone_are_checked_too(path):
    atoms = np.random.default_rng(5).normal(size=(30, 6000)).astype(np.float32)
    index = bm.BanditMIPS(max_extra_memory=60_000 + 30 * 500).fit(atoms)
    codes = index._known.codes
    assert 2048 < codes.n_cells < 6000
    assert codes.n_bits == 1
    index.save(path)
    np.testing.assert_equal(asdict(bm.load(path).search(atoms[:3], 3)), asdict(index.search(atoms[:3], 3)))
    for change in (codes_of("n_bits", 2), codes_of("n_cells", codes.n_cells - 64), narrow_codes("rest")):
        refuses(index, change, path)


def negative_pointer(parts):
    parts["indptr"][3] = -5


def pointer_beyond(parts):
    parts["indptr"][-1] += 1


def falling_pointers(parts):
    parts["indptr"][3] = parts["indptr"][2] - 1


def fewer_pointers(parts):
    parts["indptr"] = parts["indptr"][:-1]


def index_beyond(parts):
    parts["indices"][7] = 10**9


def negative_index(parts):
    parts["indices"][7] = -1


def indices_of_floats(parts):
    parts["indices"] = parts["indices"].astype(np.float32)


def fewer_entries(parts):
    parts["data"] = parts["data"][:-1]


BAD_PARTS = [
    negative_pointer,
    pointer_beyond,
    falling_pointers,
    fewer_pointers,
    index_beyond,
    negative_index,
    indices_of_floats,
    fewer_entries,
]


@pytest.mark.parametrize("change", BAD_PARTS)
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sound_file_with_places_outside_the_matrix_is_refused(form, change, path):
    bm.BanditMIPS().fit(SPARSE.asformat(form)).save(path)
    saved = read_file(path)
    arrays = {name: np.array(array) for name, array in saved.arrays.items()}
    names = {name.rpartition("_")[2]: name for name in arrays if name.startswith("atoms0_")}
    parts = {part: arrays[name] for part, name in names.items()}
    change(parts)
    arrays.update({names[part]: array for part, array in parts.items()})
    write_file(path, saved.metadata, arrays)
    with pytest.raises(bm.CorruptFileError, match=r"index\.bm"):
        bm.load(path)


@pytest.mark.parametrize("change", [*BAD_PARTS[:3], index_beyond, negative_index])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_a_matrix_in_memory_with_places_outside_it_is_refused(form, change):
    matrix = scipy.sparse.coo_array(SPARSE).asformat(form)
    parts = {"indices": matrix.indices.copy(), "indptr": matrix.indptr.copy()}
    change(parts)
    matrix.indices, matrix.indptr = parts["indices"], parts["indptr"]
    with pytest.raises(ValueError, match=r"atoms\.(indices|indptr) must"):
        bm.search(matrix, QUERIES[0])
    with pytest.raises(ValueError, match=r"atoms\.(indices|indptr) must"):
        bm.BanditMIPS().fit(matrix)


@pytest.mark.parametrize("place", [10**9, -1])
@pytest.mark.parametrize("axis", [0, 1])
def test_coordinates_outside_a_matrix_are_refused(axis, place):
    matrix = SPARSE.tocoo(copy=True)
    matrix.coords[axis].setflags(write=True)
    matrix.coords[axis][3] = place
    with pytest.raises(ValueError, match=rf"atoms\.coords\[{axis}\] must lie in"):
        bm.search(matrix, QUERIES[0])


def a_list_too_short(matrix):
    matrix.data[2] = matrix.data[2][:-1]


def a_list_too_long(matrix):
    matrix.data[2] = [*matrix.data[2], *[1.0] * 1_000]


def fewer_lists(matrix):
    matrix.rows = matrix.rows[:-1]


def fewer_diagonals(matrix):
    matrix.data = matrix.data[:3]


def fewer_offsets(matrix):
    matrix.offsets = matrix.offsets[:3]


def the_same_diagonal(matrix):
    matrix.offsets[1] = matrix.offsets[0]


def odd_blocks(matrix):
    matrix.data = np.zeros((matrix.data.shape[0], 7, 11))


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("lil", a_list_too_short),
        ("lil", a_list_too_long),
        ("lil", fewer_lists),
        ("dia", fewer_diagonals),
        ("dia", fewer_offsets),
        ("dia", the_same_diagonal),
        ("bsr", odd_blocks),
    ],
)
def test_counts_that_do_not_fit_are_refused_before_scipy_believes_them(form, change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)  # of many diagonals
        matrix = scipy.sparse.coo_array(SPARSE).asformat(form)
    assert bm.search(matrix, QUERIES[0]).indices.size == 1
    change(matrix)
    with pytest.raises(ValueError, match="atoms"):
        bm.search(matrix, QUERIES[0])
    with pytest.raises(ValueError, match="queries"):
        bm.search(ATOMS, matrix)


ROOMY = """
    import sys
    import numpy as np, scipy.sparse
    import banditmips as bm
    from banditmips._saved import read_file
    from banditmips._saved_format import write_file

    form, path = sys.argv[1:]
    rng = np.random.default_rng(0)
    atoms = np.where(rng.random((60, 2_500)) < 0.3, rng.normal(size=(60, 2_500)), 0.0)
    query = rng.normal(size=2_500)
    sound = scipy.sparse.coo_array(atoms).asformat(form)
    bm.BanditMIPS().fit(sound).save(path)
    roomy = sound.copy()
    roomy.data, roomy.indices = np.tile(sound.data, 3), np.tile(sound.indices, 3)
    indexes = [bm.BanditMIPS().fit(roomy)]
    saved = read_file(path)
    arrays = {name: np.array(array) for name, array in saved.arrays.items()}
    for name in arrays:
        if name.endswith(("_data", "_indices")):
            arrays[name] = np.tile(arrays[name], 3)
    write_file(path, saved.metadata, arrays)
    try:
        indexes.append(bm.load(path))
    except bm.CorruptFileError:
        pass
    for index in indexes:
        for options in ({}, {"minimise": "multiplies"}, {"minimise": "multiplies", "sampling": "uniform"}):
            for _ in range(3):
                assert index.search(query, 1, **options).indices[0] == np.argmax(atoms @ query)
    assert roomy.data.size == 3 * sound.data.size
    print("right")
"""


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_arrays_that_go_on_behind_what_is_stored(form, path):
    """SciPy, told to choose columns of such a matrix, writes beyond its own arrays, and the process ends."""
    command = [sys.executable, "-c", textwrap.dedent(ROOMY), form, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr[-2000:]


class Delegating:
    """Atoms of a user's own kind."""

    def __init__(self, array):
        store = DenseStore(array)
        self.shape, self.dtype = store.shape, store.dtype
        self.gather, self.scores, self.blocks = store.gather, store.scores, store.blocks


def test_what_cannot_be_saved_leaves_the_old_file(path):
    bm.BanditMIPS().fit(ATOMS).save(path)
    contents = path.read_bytes()
    with pytest.raises(TypeError, match="Delegating"):
        bm.BanditMIPS().fit(Delegating(ATOMS)).save(path)
    with pytest.raises(TypeError, match=r"atoms of (float128|longdouble) cannot be saved"):
        bm.BanditMIPS().fit(ATOMS.astype(np.longdouble)).save(path)
    assert path.read_bytes() == contents
    assert list(path.parent.iterdir()) == [path]


def test_an_index_that_was_not_loaded_has_nothing_to_verify(path):
    index = bm.BanditMIPS().fit(ATOMS)
    with pytest.raises(ValueError, match="not loaded from a file"):
        index.verify()
    index.save(path)
    with pytest.raises(ValueError, match="not loaded from a file"):
        bm.load(path).fit(ATOMS).verify()


# --- the golden file --------------------------------------------------------------------------------------------------


def golden_index():
    """Return the index in the golden file: three dense atoms, two sparse ones, and one of the five removed."""
    entries = (np.arange(5 * 40).reshape(5, 40) * 7) % 11 - 5
    dense, sparse = entries[:3].astype(np.float32), scipy.sparse.csr_array(np.maximum(entries[3:], 0).astype(np.int8))
    return bm.BanditMIPS(delta=0.01, seed=7, bucket_size=2).fit(dense).add(sparse).remove([1])


def test_the_golden_file_can_still_be_loaded():
    index = bm.load(GOLDEN)
    index.verify()
    assert (index.n_atoms, index.n_coordinates) == (5, 40)
    query = np.arange(40) % 4 - 1.0
    result = index.search(query, 5)
    np.testing.assert_array_equal(result.indices, [4, 3, 2, 0, -1])
    np.testing.assert_array_equal(result.scores, [29.0, 28.0, 1.0, -1.0, -np.inf])
    assert result.exact.all()


def test_the_golden_file_holds_what_its_maker_says():
    query = np.arange(40) % 4 - 1.0
    np.testing.assert_equal(asdict(bm.load(GOLDEN).search(query, 3)), asdict(golden_index().search(query, 3)))


def test_the_scatter_of_a_file_that_holds_none_is_derived():
    """The golden file is of the time before it was recorded; new files keep it to the bit."""
    loaded, made = bm.load(GOLDEN)._fitted.facts, golden_index()._fitted.facts
    np.testing.assert_allclose(loaded.scatter, made.scatter, rtol=1e-12)


def test_facts_are_kept_to_the_bit(path):
    index = bm.BanditMIPS().fit(1e6 + ATOMS)
    index.save(path)
    for name in ("squared_norms", "means", "scatter", "column_squares", "low", "high"):
        np.testing.assert_array_equal(getattr(bm.load(path)._fitted.facts, name), getattr(index._fitted.facts, name))
