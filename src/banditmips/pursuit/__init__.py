"""Matching pursuit and orthogonal matching pursuit, each step a race on sampled coordinates.

A pursuit repeats three things::

    search      which atom explains most of the residual?      race.py, on projections.pyx
    fit         with which coefficient?                        coefficients.py
    subtract    the residual is the signal minus that much     residual.py

`steps.py` puts them together. What makes a pursuit more than a search repeated: the query changes with every step and
exists only at the coordinates that are sampled (`residual.py`); atoms are ranked by projection, so that their norms
matter and have to be estimated where nobody knows them; atoms may come in pairs that are ranked together, a sine and
its cosine (`dictionary.py`); and d may be so large that neither signal nor atoms are arrays.
"""

from banditmips.pursuit._api import MatchingPursuit, matching_pursuit
from banditmips.pursuit._result import PursuitResult, PursuitStop

__all__ = ["MatchingPursuit", "PursuitResult", "PursuitStop", "matching_pursuit"]
