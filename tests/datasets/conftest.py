"""No test of datasets may see files that happen to be on the machine, save MovieLens 100K."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def empty_data_folder(tmp_path, monkeypatch):
    """Point the default place of data to a folder that does not exist yet."""
    folder = tmp_path / "data"
    monkeypatch.setenv("BANDITMIPS_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def movielens_file():
    """Return the real ``u.data``, or skip."""
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ml-100k"
    path = Path(os.environ.get("BANDITMIPS_ML100K", default)) / "u.data"
    if not path.is_file():
        pytest.skip(f"MovieLens 100K is not at {path} (set BANDITMIPS_ML100K to its folder)")
    return path
