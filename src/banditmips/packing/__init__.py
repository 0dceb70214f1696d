"""Packing: a matrix on disk rewritten for searches that read little of it.

::

    SOURCE --rows, once-+--> facts (norms, range, NaN check) --> squared_norms, means, scatter, column_squares
                        +--> rows, as they are ----------------> rows         (read by the exact finish)
                        +--> the seed's first coordinates -----> coordinates  (read by the rounds)

`layout` says what lies where, `writing` writes it block by block, `atoms.packed` reads it.
"""

from banditmips.packing._api import PackReport, pack

__all__ = ["PackReport", "pack"]
