"""Maximum inner product search in high dimensions, by sampling coordinates adaptively."""

import importlib as _importlib
import typing as _typing

from banditmips._version import __version__

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
    "estimators",
    "load",
    "matching_pursuit",
    "open_atoms",
    "pack",
    "search",
]

_HOMES = {
    "BanditMIPS": "_index",
    "CorruptFileError": "_files",
    "MatchingPursuit": "pursuit",
    "PackReport": "packing",
    "PursuitResult": "pursuit",
    "PursuitStop": "pursuit",
    "Round": "_result",
    "SearchResult": "_result",
    "StopReason": "_result",
    "Trace": "_result",
    "load": "_saving",
    "matching_pursuit": "pursuit",
    "open_atoms": "_opening",
    "pack": "packing",
    "search": "_search",
}


if _typing.TYPE_CHECKING:
    from banditmips import baselines, datasets, distributed, estimators
    from banditmips._files import CorruptFileError
    from banditmips._index import BanditMIPS
    from banditmips._opening import open_atoms
    from banditmips._result import Round, SearchResult, StopReason, Trace
    from banditmips._saving import load
    from banditmips._search import search
    from banditmips.packing import PackReport, pack
    from banditmips.pursuit import MatchingPursuit, PursuitResult, PursuitStop, matching_pursuit
else:

    def __getattr__(name: str) -> object:
        """Import what is asked for when it is first asked for.

        Nothing heavy is imported before the command line has begun to listen for Ctrl-C, and no program waits for what
        it does not use.
        """
        if name in _HOMES:
            value = getattr(_importlib.import_module(f"banditmips.{_HOMES[name]}"), name)
            globals()[name] = value
            return value
        if name in __all__:
            return _importlib.import_module(f"banditmips.{name}")
        raise AttributeError(f"module 'banditmips' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
