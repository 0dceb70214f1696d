"""What an index was made with: the parameters as they were given, and as they act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from banditmips._options import CallOptions, check_names
from banditmips._validate import (
    Options,
    changed_options,
    check_bucket_size,
    check_flag,
    check_layout,
    n_jobs_or_one,
    reject_unknown,
    seed_or_fresh,
)
from banditmips.race.preparing import Preparation

__all__ = ["IndexParameters"]

_MAX_CHANGED = 64
"""Combinations of changed options that an index remembers."""

_CALL_OPTIONS = frozenset(CallOptions.__annotations__)
_BEFORE_FIT = {
    "seed": "an index's coordinates are kept for the seed it was made with",
    **dict.fromkeys(("bucket_size", "layout", "max_extra_memory", "validate"), "give it to BanditMIPS before fit"),
}


class IndexParameters:
    """The parameters of a `BanditMIPS`, checked.

    Attributes
    ----------
    given : dict
        As the user gave them.
    options : Options
        Those of a search, with the seed that acts.
    bucket_size, layout
        As in `BanditMIPS`.
    """

    def __init__(self, given: dict[str, Any], seed: int) -> None:
        acting = {**given, "seed": seed, "n_jobs": n_jobs_or_one(given["n_jobs"])}
        self.given = given
        self.options = Options(**{field.name: acting[field.name] for field in fields(Options)})
        self.bucket_size = check_bucket_size(given["bucket_size"], self.options.objective)
        self.layout, self._max_extra_memory = check_layout(given["layout"], given["max_extra_memory"])
        self._validate = check_flag("validate", given["validate"])
        self._changed: dict[Any, Options] = {}

    def changed(self, changes: Mapping[str, Any]) -> IndexParameters:
        """Return others, of which some are different."""
        check_names(changes, "BanditMIPS", self.given, {})
        seed = seed_or_fresh(changes["seed"]) if "seed" in changes else self.options.seed
        return IndexParameters({**self.given, **changes}, seed)

    @staticmethod
    def ask_for_a_fit(names: Mapping[str, Any]) -> bool:
        """Whether some of these say what `fit` prepares."""
        return bool(names.keys() - _CALL_OPTIONS)

    def of_call(self, options: CallOptions) -> Options:
        """The options with some changed; the same ones come again and again, and then are the same object."""
        if not options:
            return self.options
        if not _CALL_OPTIONS.issuperset(options):
            reject_unknown(options, "search", ("k", "mask", "queries"), _BEFORE_FIT)
        try:
            key = tuple((name, type(value), value) for name, value in options.items())
            known = self._changed.get(key)
        except TypeError:  # a value that cannot be hashed: the options will say what is wrong with it
            key, known = None, None
        if known is None:
            known = changed_options(self.options, options)
            check_bucket_size(self.bucket_size, known.objective)
            if key is not None and len(self._changed) < _MAX_CHANGED:
                self._changed[key] = known
        return known

    def preparation(self) -> Preparation:
        """What `fit` makes of atoms."""
        options = self.options
        return Preparation(
            self.layout, self._max_extra_memory, self.bucket_size, self._validate, options.seed, options.n_jobs
        )

    def of_fit(self) -> dict[str, Any]:
        """Those that decide what `fit` keeps of atoms."""
        deciding = ("seed", "layout", "max_extra_memory", "validate")
        return {name: value for name, value in self.to_save().items() if name in deciding}

    def to_save(self) -> dict[str, Any]:
        """The arguments of a `BanditMIPS` that acts the same, whatever the defaults will be."""
        return {
            **asdict(self.options),
            "bound": self.given["bound"],
            "bucket_size": self.bucket_size,
            "layout": self.layout,
            "max_extra_memory": self._max_extra_memory,
            "validate": self._validate,
        }
