import zipfile

import numpy as np
import pytest

from banditmips.datasets import load

HEADER = "time,open,close,high,low,volume"
START = 25_000_000  # a minute in 2017


def line(minute, close):
    return f"{minute * 60_000},{close - 1},{close},{close + 1},{close - 2},{0.5}"


# minute -> closing price; every pair has gaps, and the second begins three minutes later than the first
PAIRS = {
    "btcusd": {START: 10.0, START + 2: 11.0, START + 3: 12.0, START + 9: 13.5},
    "ethusd": {START + 3: 20.0, START + 4: 21.0, START + 8: 22.0},
    "xrpusd": {START + 1: 0.5, START + 5: 0.75},
}
LATE = {"newusd": {START + 7: 99.0}}


def csv(prices):
    return "\n".join([HEADER, *(line(m, p) for m, p in prices.items()), ""])


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.csv", text)
        archive.writestr("README.txt", "not a pair")
    return path


@pytest.fixture
def archive(tmp_path):
    return write(tmp_path / "crypto_pairs.zip", {k: csv(v) for k, v in (PAIRS | LATE).items()})


def by_pair(dataset):
    rows = [*dataset.atoms.tolist(), *dataset.queries.tolist()]
    return dict(zip(dataset.params["pairs"] + dataset.params["query_pairs"], rows, strict=True))


def test_prices_are_aligned_and_carried_forward(archive):
    dataset = load("crypto_pairs", path=archive, n=2, n_queries=1, d=7)
    # Three pairs are there from START + 3 on.
    assert by_pair(dataset) == {
        "btcusd": [12, 12, 12, 12, 12, 12, 13.5],
        "ethusd": [20, 21, 21, 21, 21, 22, 22],
        "xrpusd": [0.5, 0.5, 0.75, 0.75, 0.75, 0.75, 0.75],
    }
    assert not dataset.surrogate
    assert "2017-07-14 02:43 UTC" in dataset.description


def test_unpacked_files_are_read_like_the_archive(archive, tmp_path, monkeypatch):
    folder = tmp_path / "other" / "crypto_pairs"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    monkeypatch.setenv("BANDITMIPS_DATA", str(folder.parent))
    packed = load("crypto_pairs", path=archive, n=2, n_queries=1, d=7)
    for path in (None, folder, folder.parent):
        unpacked = load("crypto_pairs", path=path, n=2, n_queries=1, d=7)
        assert by_pair(unpacked) == by_pair(packed)
        assert unpacked.params["path"] == str(folder)
    (folder / "btcusd.csv").write_text(f"{HEADER}\n1,2\n")
    with pytest.raises(ValueError, match=r"crypto_pairs, btcusd.csv, line 2: expected numbers"):
        load("crypto_pairs", path=folder, n=2, n_queries=1, d=7)


def test_more_pairs_begin_later(archive):
    dataset = load("crypto_pairs", path=archive.parent, n=3, n_queries=1, d=3)
    assert by_pair(dataset)["newusd"] == [99, 99, 99]
    assert by_pair(dataset)["btcusd"] == [12, 12, 13.5]


def test_limits(archive):
    with pytest.raises(ValueError, match=r"d must be at most 7, the minutes .*got 8"):
        load("crypto_pairs", path=archive, n=2, d=8)
    with pytest.raises(ValueError, match=r"n \+ n_queries must be at most 4, the number of pairs"):
        load("crypto_pairs", path=archive, n=4, d=2)


@pytest.mark.parametrize(
    "bad",
    [
        f"{(START + 5) * 60_000},20,21,22",
        f"{(START + 5) * 60_000},20,21,22,19,0.5,7",
        f"{(START + 5) * 60_000};20;21;22;19;0.5",
        f"{(START + 5) * 60_000},20,,22,19,0.5",
        f"{(START + 5) * 60_000},20,nan,22,19,0.5",
        f"{(START + 5) * 60_000},20,inf,22,19,0.5",
        f"{(START + 5) * 60_000},20,2\xe91,22,19,0.5",
        "yesterday,20,21,22,19,0.5",
    ],
)
@pytest.mark.parametrize("at", [2, 4])
def test_broken_lines_are_named(tmp_path, bad, at):
    lines = csv(PAIRS["ethusd"]).splitlines()
    lines.insert(at - 1, bad)
    files = {k: csv(v) for k, v in PAIRS.items()} | {"ethusd": "\n".join(lines).encode("latin-1")}
    path = write(tmp_path / "broken.zip", files)
    with pytest.raises(ValueError, match=rf"broken\.zip, ethusd\.csv, line {at}: expected numbers for time,open"):
        load("crypto_pairs", path=path, n=2, d=3)


def test_a_table_that_is_too_wide_throughout(tmp_path):
    wide = "\n".join([HEADER, *(line(m, 1.0) + ",7" for m in (START, START + 1))])
    path = write(tmp_path / "wide.zip", {"a": wide, "b": csv(PAIRS["btcusd"])})
    with pytest.raises(ValueError, match=r"a\.csv, line 2: expected numbers"):
        load("crypto_pairs", path=path, n=1, d=2)


@pytest.mark.parametrize("header", ["time,open,high,low,close,volume", "time;open;close", ""])
def test_another_header(tmp_path, header):
    text = csv(PAIRS["btcusd"]).replace(HEADER, header)
    path = write(tmp_path / "crypto_pairs.zip", {"btcusd": text, "ethusd": csv(PAIRS["ethusd"])})
    with pytest.raises(ValueError, match=r"btcusd\.csv, line 1: expected 'time,open,close,high,low,volume'"):
        load("crypto_pairs", path=path, n=1, d=2)


def test_a_pair_without_trades(tmp_path):
    path = write(tmp_path / "crypto_pairs.zip", {"a": HEADER + "\n", "b": csv(PAIRS["btcusd"])})
    with pytest.raises(ValueError, match=r"a\.csv, line 2: expected numbers .*got b''"):
        load("crypto_pairs", path=path, n=1, d=2)


def test_times_must_rise(tmp_path):
    text = "\n".join([HEADER, line(START, 1.0), line(START + 2, 1.0), line(START + 1, 1.0)])
    path = write(tmp_path / "crypto_pairs.zip", {"a": text, "b": csv(PAIRS["btcusd"])})
    with pytest.raises(ValueError, match=rf"a\.csv, line 4: expected a time after {(START + 2) * 60_000}"):
        load("crypto_pairs", path=path, n=1, d=2)


def test_no_zip_and_damaged_zips(archive):
    content = bytearray(archive.read_bytes())
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"crypto_pairs\.zip is not a zip file, or is truncated"):
        load("crypto_pairs", path=archive, n=1, d=2)
    content[60] ^= 0xFF  # within the compressed lines of the first pair
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"btcusd\.csv"):
        load("crypto_pairs", path=archive, n=1, d=2)


def test_surrogate_prices():
    dataset = load("crypto_pairs", n=60, d=5000, surrogate=True)
    assert dataset.atoms.min() > 0
    assert dataset.atoms.max() <= 60_000 * (1 + 1e-6)
    starts = dataset.atoms[:, 0]
    assert starts.max() / starts.min() > 1e4
    steps = np.diff(np.log(dataset.atoms.astype(np.float64)), axis=1)
    assert 5e-4 < np.median(steps.std(axis=1)) < 1.2e-3
    assert np.median(np.corrcoef(steps)[np.triu_indices(60, 1)]) > 0.05
