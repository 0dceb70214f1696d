"""Kinds of data that hide from a sample what decides: in few entries, few columns, small differences or heavy tails.

Each is a function ``(rng, n, d) -> (atoms, queries)`` in the dtype that such data comes in, with `N_QUERIES` queries,
and registers itself in `KINDS` when its module is imported.
"""

import kinds_of_patterns
import kinds_of_records
import kinds_of_signals
from kind_registry import KINDS, N_QUERIES

__all__ = ["KINDS", "N_QUERIES", "kinds_of_patterns", "kinds_of_records", "kinds_of_signals"]
