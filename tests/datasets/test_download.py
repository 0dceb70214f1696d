import contextlib
import hashlib
import io
import os
import socket
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from banditmips.cli import app
from banditmips.datasets import _sources, download, load
from banditmips.datasets.download import DownloadError, fetch

LINES = "".join(
    f"{user}\t{movie}\t{1 + (user + movie) % 5}\t88125\n" for user in range(1, 60) for movie in range(1, 30)
)


def zipped(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


ARCHIVE = zipped({"ml-100k/u.data": LINES, "ml-100k/README": "about", "ml-100k/other": "not needed"})


class Handler(BaseHTTPRequestHandler):
    """Serve one archive; `behaviour` of the server says how well."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.behaviour == "missing":
            return self.send_error(404)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
        if start and start >= len(server.content):
            return self.send_error(416)
        rest = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            claimed = start + (server.behaviour == "wrong range")
            self.send_header("Content-Range", f"bytes {claimed}-{len(server.content) - 1}/{len(server.content)}")
        if server.behaviour != "no length":
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if server.behaviour == "breaks once":
            server.behaviour = "good"
            rest = rest[: len(rest) // 3]
        self.wfile.write(rest)
        return None


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.content, running.behaviour, running.ranges, running.asked = ARCHIVE, "good", True, []
        source = replace(
            _sources.SOURCES["movielens_100k"],
            url=f"http://127.0.0.1:{running.server_port}/files/ml-100k.zip",
            sha256=hashlib.sha256(ARCHIVE).hexdigest(),
            size=len(ARCHIVE),
        )
        monkeypatch.setitem(_sources.SOURCES, "movielens_100k", source)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def broken_off(server, folder):
    """Run a download that breaks off, and return the partial file."""
    server.behaviour = "breaks once"
    with pytest.raises(DownloadError, match=rf"broke off after {len(ARCHIVE) // 3} of {len(ARCHIVE)} bytes"):
        fetch("movielens_100k", folder)
    part = folder / "ml-100k.zip.part"
    assert part.read_bytes() == ARCHIVE[: len(ARCHIVE) // 3]
    return part


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


UNPACKED = ["ml-100k/README", "ml-100k/u.data"]


def test_fetched_files_are_where_load_looks(server, empty_data_folder):
    assert fetch("movielens_100k") == empty_data_folder
    assert files_in(empty_data_folder) == UNPACKED
    assert (empty_data_folder / "ml-100k/u.data").read_text() == LINES
    assert load("movielens_100k", n=10).d == 59


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    fetch("movielens_100k", tmp_path)
    fetch("movielens_100k", tmp_path)
    assert len(server.asked) == 1


@pytest.mark.parametrize("behaviour", ["good", "no length"])
def test_progress(server, tmp_path, monkeypatch, behaviour):
    monkeypatch.setattr(download, "_CHUNK_BYTES", 1000)
    server.behaviour = behaviour
    calls = []
    fetch("movielens_100k", tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == [*range(1000, len(ARCHIVE), 1000), len(ARCHIVE)]
    assert {total for _, total in calls} == {len(ARCHIVE) if behaviour == "good" else None}


def test_goes_on_after_a_broken_connection(server, tmp_path):
    broken_off(server, tmp_path)
    calls = []
    fetch("movielens_100k", tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert server.asked == [None, f"bytes={len(ARCHIVE) // 3}-"]
    assert calls[0][0] > len(ARCHIVE) // 3
    assert calls[-1] == (len(ARCHIVE), len(ARCHIVE))
    assert files_in(tmp_path) == UNPACKED


def test_begins_again_where_the_server_knows_no_ranges(server, tmp_path):
    server.ranges = False
    broken_off(server, tmp_path)
    fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == UNPACKED


def test_begins_again_where_the_partial_file_is_too_long(server, tmp_path):
    (tmp_path / "ml-100k.zip.part").write_bytes(ARCHIVE + b"more")
    fetch("movielens_100k", tmp_path)
    assert server.asked == [f"bytes={len(ARCHIVE) + 4}-", None]
    assert files_in(tmp_path) == UNPACKED


def test_bytes_that_were_not_asked_for_are_refused(server, tmp_path):
    part = broken_off(server, tmp_path)
    server.behaviour = "wrong range"
    with pytest.raises(DownloadError, match="asked for the bytes from"):
        fetch("movielens_100k", tmp_path)
    assert part.read_bytes() == ARCHIVE[: len(ARCHIVE) // 3]


def test_another_checksum_is_refused(server, tmp_path):
    server.content = ARCHIVE[:-1] + b"x"
    with pytest.raises(DownloadError, match="expected the SHA-256 checksum"):
        fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == []
    server.content = ARCHIVE
    fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == UNPACKED


def test_a_damaged_partial_file_does_not_survive(server, tmp_path):
    (tmp_path / "ml-100k.zip.part").write_bytes(bytes(100))
    with pytest.raises(DownloadError, match="checksum"):
        fetch("movielens_100k", tmp_path)
    fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == UNPACKED


def test_another_size_is_refused(server, tmp_path):
    server.content = ARCHIVE + b"x"
    with pytest.raises(DownloadError, match=f"expected {len(ARCHIVE)} bytes, got {len(ARCHIVE) + 1}"):
        fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == []


def test_not_found(server, tmp_path):
    server.behaviour = "missing"
    with pytest.raises(DownloadError, match=r"404.*https://grouplens\.org.*ml-100k/u\.data"):
        fetch("movielens_100k", tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"not an archive", "not a zip file"), (zipped({"else": "x"}), "holds no file ml-100k/u.data")],
)
def test_archives_without_the_files(server, tmp_path, monkeypatch, content, message):
    source = replace(_sources.SOURCES["movielens_100k"], sha256=None, size=None)
    monkeypatch.setitem(_sources.SOURCES, "movielens_100k", source)
    server.content = content
    with pytest.raises(DownloadError, match=message):
        fetch("movielens_100k", tmp_path)


def test_tar_archives(server, tmp_path, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("sift/sift_base.fvecs")
        entry.size = 8
        archive.addfile(entry, io.BytesIO(b"\1\0\0\0\0\0\0\0"))
    server.content = packed.getvalue()
    url = f"http://127.0.0.1:{server.server_port}/sift.tar.gz"
    monkeypatch.setitem(_sources.SOURCES, "sift_1m", replace(_sources.SOURCES["sift_1m"], url=url, size=None))
    fetch("sift_1m", tmp_path)
    assert files_in(tmp_path) == ["sift/sift_base.fvecs"]


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/ml-100k.zip"
        monkeypatch.setitem(_sources.SOURCES, "movielens_100k", replace(_sources.SOURCES["movielens_100k"], url=url))
        with pytest.raises(DownloadError, match=r"refused.*Get it from https://grouplens\.org") as caught:
            fetch("movielens_100k", tmp_path / "new")
    assert str(tmp_path / "new" / "ml-100k" / "u.data") in str(caught.value)


@pytest.mark.parametrize("name", ["netflix", "crypto_pairs"])
def test_what_needs_a_login_says_where_to_get_it(name, tmp_path):
    with pytest.raises(DownloadError, match=r"login.*https://www\.kaggle\.com") as caught:
        fetch(name, tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of crypto_pairs.*got 'pixels'"):
        fetch("pixels", tmp_path)


def test_every_source_that_can_be_fetched_has_a_checksum_or_says_that_it_has_none():
    doubtful = {name for name, source in _sources.SOURCES.items() if source.doubt is not None}
    assert doubtful == {"sift_1m"}
    assert "no checksum on record and is not encrypted" in _sources.SOURCES["sift_1m"].doubt
    for source in _sources.SOURCES.values():
        assert source.url is None or source.sha256 is None or source.url.startswith("https:")
        assert (source.size is None) == (source.url is None)


def test_what_cannot_be_checked_is_fetched_only_if_somebody_says_so(monkeypatch, tmp_path):
    fetched = []

    def fetch_files(name, directory, progress):
        fetched.append(name)
        (tmp_path / "sift").mkdir()
        (tmp_path / "sift" / "sift_base.fvecs").write_bytes(b"")
        return tmp_path

    monkeypatch.setattr("banditmips.datasets.download.fetch", fetch_files)
    refused = CliRunner().invoke(app, ["data", "fetch", "sift_1m", "--directory", str(tmp_path)])
    assert (refused.exit_code, fetched) == (2, [])
    assert "no checksum on record" in refused.stderr
    assert "'sift_1m' was not fetched (--yes fetches without asking)" in refused.stderr
    taken = CliRunner().invoke(app, ["data", "fetch", "sift_1m", "--yes", "--directory", str(tmp_path)])
    assert (taken.exit_code, fetched) == (0, ["sift_1m"])
    assert "no checksum on record" in taken.stderr


def test_a_download_does_not_replace_a_fifo(server, tmp_path):
    os.mkfifo(tmp_path / "ml-100k.zip.part")
    with pytest.raises(FileExistsError, match="is a FIFO"):
        fetch("movielens_100k", tmp_path)
