"""Real data for the benchmark, each set built from a package that anybody can install.

A set is a module with ``build(rng, ...) -> (atoms, queries)``, whose docstring says where the data comes from, under
which licence, and what a query means, and with ``TINY``, arguments of `build` for a small version of the same. Nothing
of it is in the repository: a set is built when it is first asked for, and kept in a cache folder.
"""

from benchmarks.real.cache import SETS, load
from benchmarks.real.sources import SourceMissingError

__all__ = ["SETS", "SourceMissingError", "load"]
