"""scikit-learn estimators over the same searches; needs the ``sklearn`` extra.

`MIPSNeighbors` finds neighbours, `MIPSNeighborsClassifier` lets them vote, `MIPSTransformer` makes sparse features of
them, and `MatchingPursuit` writes rows as sums of a few of the rows it was fitted to. All of them can be cloned,
pickled, searched over by ``GridSearchCV`` and put into a ``Pipeline``, take data frames and (but for the pursuit)
sparse matrices, and pass scikit-learn's own ``check_estimator``.

A neighbour is an atom with a large **score**, not a small distance: where scikit-learn returns distances that grow from
left to right, these estimators return scores that fall. With ``objective="neg_sqeuclidean"`` a score is minus the
squared distance, and neighbours are those of scikit-learn.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> from banditmips.estimators import MIPSNeighborsClassifier
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(100, 2_000)) + np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat(["a", "b"], 50)
>>> model = make_pipeline(StandardScaler(), MIPSNeighborsClassifier(n_neighbors=3)).fit(X, y)
>>> model.score(X, y)
1.0
"""

from banditmips._extras import require

require("sklearn", extra="sklearn", purpose="banditmips.estimators")

from banditmips.estimators._neighbors import MIPSNeighbors, MIPSNeighborsClassifier, MIPSTransformer  # noqa: E402
from banditmips.estimators._pursuit import MatchingPursuit  # noqa: E402

__all__ = ["MIPSNeighbors", "MIPSNeighborsClassifier", "MIPSTransformer", "MatchingPursuit"]
