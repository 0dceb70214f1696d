"""A distributed index in a folder: a saved index for each shard, and a list of them, which is written last.

::

    folder/atoms.bm            the list: settings, ids, and for each shard its file and its shape
    folder/3f9c-00000.bm       the shards, as `BanditMIPS.save` writes them; each save has a name of its own for them
    folder/3f9c-00001.bm

The list is replaced at once, so a save that fails leaves the old index as it was, and nothing of its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banditmips._array_rules import ArrayRule, checked_arrays
from banditmips._files import CorruptFileError
from banditmips._ids import Ids
from banditmips._saved import read_file
from banditmips._saved_format import write_file
from banditmips._validate import Options
from banditmips.distributed._shard import save_shard

if TYPE_CHECKING:
    from banditmips._saved_atoms import AtomsPlace
    from banditmips.distributed._cluster import Cluster
    from distributed import Future

__all__ = ["SavedShards", "read_list", "save_shards"]

_LIST, _KIND = "atoms.bm", "shards"
_NOT_OF_SHARDS = ("n_jobs", "trace")
"""Options that an index of shards does not have."""
_IDS = {
    "ids": ArrayRule("i8", ("n",), optional=True),
    "ids_text": ArrayRule("u4", ("n", "characters"), below=0x110000, optional=True),
}


@dataclass(frozen=True)
class SavedShards:
    """What a list says."""

    path: Path
    paths: list[str]
    shapes: list[tuple[int, int]]
    settings: dict[str, Any]
    ids: Ids | None

    @property
    def n_atoms(self) -> list[int]:
        """Atoms of each shard."""
        return [shape[0] for shape in self.shapes]

    def places(self, atoms: AtomsPlace | Sequence[AtomsPlace | None] | None) -> list[AtomsPlace | None]:
        """Where the atoms of each shard are said to be."""
        if atoms is None or isinstance(atoms, (str, os.PathLike)):
            return [atoms] * len(self.paths)
        places = list(atoms)
        if len(places) != len(self.paths) or not all(isinstance(p, (str, os.PathLike, type(None))) for p in places):
            raise ValueError(f"atoms must be a path, or one for each of the {len(self.paths)} shards, got {atoms!r}")
        return places

    def check(self, shapes: Sequence[tuple[int, int]]) -> None:
        """Compare with the shapes of the shards that were loaded."""
        for path, stated, found in zip(self.paths, self.shapes, shapes, strict=True):
            if tuple(stated) != tuple(found):
                raise CorruptFileError(
                    self.path, "header", f"it says that {path} holds {tuple(stated)} atoms, but it holds {tuple(found)}"
                )


def save_shards(
    cluster: Cluster,
    folder: str | os.PathLike[str],
    shards: Sequence[Future[Any]],
    homes: Sequence[str | None],
    shapes: Sequence[tuple[int, int]],
    settings: Mapping[str, Any],
    ids: Ids | None,
) -> None:
    """Have every shard written, then the list of them."""
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    old = [Path(path) for path in read_list(folder).paths] if (folder / _LIST).exists() else []
    name = secrets.token_hex(4)
    paths = [folder / f"{name}-{number:05}.bm" for number in range(len(shards))]
    metadata = {
        "kind": _KIND,
        "shards": [{"file": path.name, "shape": list(shape)} for path, shape in zip(paths, shapes, strict=True)],
        "settings": dict(settings),
    }
    try:
        tasks = zip(shards, paths, homes, strict=True)
        cluster.gather(
            [cluster.submit(save_shard, shard, str(path), home=home) for shard, path, home in tasks], limited=False
        )
        write_file(folder / _LIST, metadata, {} if ids is None else dict([ids.to_array()]))
    except BaseException:
        old = paths
        raise
    finally:
        for path in old:
            with suppress(OSError):
                path.unlink()


def settings_to_save(options: Options, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `DistributedMIPS` is to be made with again, as JSON has it."""
    chosen = {name: value for name, value in asdict(options).items() if name not in _NOT_OF_SHARDS}
    value_range = chosen["value_range"]
    return {**chosen, **settings, "value_range": None if value_range is None else list(value_range)}


def read_list(folder: str | os.PathLike[str]) -> SavedShards:
    """Open the list of a folder."""
    path = Path(folder).absolute() / _LIST
    file = read_file(path)
    try:
        if file.metadata.get("kind") != _KIND:
            raise ValueError(f"it holds {file.metadata.get('kind')!r}, not a list of shards")
        file.check()
        names = [str(entry["file"]) for entry in file.metadata["shards"]]
        shapes = [(int(n), int(d)) for n, d in (entry["shape"] for entry in file.metadata["shards"])]
        if not names or any(os.path.basename(name) != name for name in names):
            raise ValueError(f"{names!r} are no files beside it")
        n = sum(shape[0] for shape in shapes)
        ids = Ids.from_arrays(checked_arrays(file.arrays, _IDS, {"n": n}, {}), None, n)
        settings = dict(file.metadata["settings"])
        if settings["value_range"] is not None:
            settings["value_range"] = tuple(settings["value_range"])
    except CorruptFileError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(
            path, "header", f"it is not a list of shards as this version writes it ({error})"
        ) from error
    return SavedShards(path, [str(path.parent / name) for name in names], shapes, settings, ids)
