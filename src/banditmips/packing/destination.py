"""What is at the place where packed atoms shall go: nothing, an unfinished packing to go on with, or something else."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import zarr

from banditmips._files import CorruptFileError
from banditmips.packing.layout import ATTRIBUTE, FORMAT, FORMAT_VERSION, PackLayout, check_memory, check_progress
from banditmips.packing.source import Source
from banditmips.packing.writing import PackWriter

__all__ = ["open_writer"]


def open_writer(
    dest: str, source: Source, fingerprint: str | None, wanted: PackLayout, memory_limit: int, overwrite: bool
) -> PackWriter:
    """Begin a packing, or go on with the one that is there."""
    if "://" in dest:
        raise ValueError(f"dest must be a folder of this machine, got {dest} (packed atoms can be copied anywhere)")
    _check_not_inside(source, dest)
    if os.path.lexists(dest) and not os.path.isdir(dest):
        raise FileExistsError(errno.EEXIST, "is a file, and packed atoms are a folder", dest)
    about = {"source": source.name, "fingerprint": fingerprint}
    journal = None if overwrite else _journal_at(dest)
    if journal is None or journal.get("finished_blocks") == 0:
        if overwrite:
            _check_is_zarr(dest)
        writer = PackWriter(dest, wanted, about)
        writer.begin(overwrite=overwrite or journal is not None)
    else:
        writer = PackWriter(dest, _same_packing(dest, journal, wanted, about, memory_limit), about)
        writer.resume(journal)
    return writer


def _check_not_inside(source: Source, dest: str) -> None:
    """Refuse to write over what is read."""
    if source.path is None:
        return
    here, there = source.path.resolve(), Path(dest).resolve()
    if here == there or there in here.parents or here in there.parents:
        raise ValueError(f"dest {dest} and source {source.name} lie in each other: choose another destination")


def _journal_at(dest: str) -> dict[str, Any] | None:
    """Return the journal of the unfinished packing that is there, or None where there is nothing."""
    if not os.path.exists(dest) or not os.listdir(dest):
        return None
    try:
        found = dict(zarr.open_group(dest, mode="r").attrs).get(ATTRIBUTE)
    except (OSError, ValueError, KeyError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FileExistsError(errno.EEXIST, "is there already, and is no unfinished packing", dest)
    if found.get("complete"):
        raise FileExistsError(
            errno.EEXIST, "is there already, and complete; overwrite=True (--overwrite) replaces it", dest
        )
    return found


def _same_packing(
    dest: str, journal: dict[str, Any], wanted: PackLayout, about: dict[str, Any], memory_limit: int
) -> PackLayout:
    """Check that the unfinished packing is the one that is asked for, and return its layout."""
    hint = "overwrite=True (--overwrite) begins anew"
    if journal.get("version") != FORMAT_VERSION:
        raise ValueError(f"{dest} was begun in format version {journal.get('version')}, not {FORMAT_VERSION}: {hint}")
    if about["fingerprint"] is None:
        raise ValueError(
            f"{dest} is an unfinished packing, and one that is not of a file cannot be gone on with: {hint}"
        )
    try:
        layout = PackLayout.from_attributes(journal)
        check_progress(journal, layout)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(dest, "attributes", f"they are not as packing writes them ({error}): {hint}") from error
    for name, what in (("n", "atoms"), ("d", "coordinates"), ("dtype", "entries")):
        if getattr(layout, name) != getattr(wanted, name):
            was, now = getattr(layout, name), getattr(wanted, name)
            raise ValueError(f"{dest} was begun with {was} {what}, but the source has {now}: {hint}")
    if journal.get("fingerprint") != about["fingerprint"]:
        raise ValueError(f"{dest} was begun from {journal.get('source')}, which has changed since: {hint}")
    for name in ("seed", "n_coordinates"):
        if getattr(layout, name) != getattr(wanted, name):
            was, now = getattr(layout, name), getattr(wanted, name)
            raise ValueError(f"{dest} was begun with {name}={was}, not {now}: give the same; {hint}")
    check_memory(layout, memory_limit)
    return layout


def _check_is_zarr(dest: str) -> None:
    """Refuse to overwrite a folder that is something else."""
    if os.path.isdir(dest) and os.listdir(dest) and not os.path.exists(os.path.join(dest, "zarr.json")):
        raise FileExistsError(errno.EEXIST, "is no Zarr v3 group or array, so it is not overwritten", dest)
