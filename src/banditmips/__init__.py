"""Maximum inner product search in high dimensions, by sampling coordinates adaptively."""

from banditmips._files import CorruptFileError
from banditmips._index import BanditMIPS, load
from banditmips._result import Round, SearchResult, StopReason, Trace
from banditmips._search import search
from banditmips._version import __version__
from banditmips.pursuit import MatchingPursuit, PursuitResult, PursuitStop, matching_pursuit

__all__ = [
    "BanditMIPS",
    "CorruptFileError",
    "MatchingPursuit",
    "PursuitResult",
    "PursuitStop",
    "Round",
    "SearchResult",
    "StopReason",
    "Trace",
    "__version__",
    "load",
    "matching_pursuit",
    "search",
]
