"""Datasets to search: synthetic ones drawn from a seed, and readers for published ones.

`load` makes any of them by name and imports only what that one needs.
"""

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._registry import load, names

__all__ = ["Dataset", "load", "names"]
