"""Maximum inner product search in high dimensions, by sampling coordinates adaptively."""

import importlib as _importlib
import typing as _typing

from banditmips._files import CorruptFileError
from banditmips._index import BanditMIPS, load
from banditmips._opening import open_atoms
from banditmips._result import Round, SearchResult, StopReason, Trace
from banditmips._search import search
from banditmips._version import __version__
from banditmips.packing import PackReport, pack
from banditmips.pursuit import MatchingPursuit, PursuitResult, PursuitStop, matching_pursuit

__all__ = [
    "BanditMIPS",
    "CorruptFileError",
    "MatchingPursuit",
    "PackReport",
    "PursuitResult",
    "PursuitStop",
    "Round",
    "SearchResult",
    "StopReason",
    "Trace",
    "__version__",
    "baselines",
    "datasets",
    "distributed",
    "load",
    "matching_pursuit",
    "open_atoms",
    "pack",
    "search",
]


if _typing.TYPE_CHECKING:
    from banditmips import baselines, datasets, distributed
else:

    def __getattr__(name: str) -> object:
        """Import these modules when they are first asked for: most programs need none of them."""
        if name in ("baselines", "datasets", "distributed"):
            return _importlib.import_module(f"banditmips.{name}")
        raise AttributeError(f"module 'banditmips' has no attribute {name!r}")
