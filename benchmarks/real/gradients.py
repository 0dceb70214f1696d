"""Gradients of the loss of single examples: which training examples speak for a prediction.

Source: the digits of scikit-learn (BSD-3-Clause; 1,797 scans of handwritten digits, UCI, CC BY 4.0), and a network of
one hidden layer in NumPy, trained for three epochs.

Query: the gradient of an example that was not trained on. A large product is a training example whose step would have
lowered that example's loss most. 1,700 x 101,260 (digits has no more examples), 688 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.sources import require

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 30, "n_hidden": 8, "n_queries": 6}
_EPOCHS, _BATCH, _STEP = 3, 32, 0.2
_Weights = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


def build(
    rng: np.random.Generator, n: int = 1_700, n_hidden: int = 1_350, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return gradients of n training examples and of others, all parameters in one row."""
    pixels, digits = require("sklearn.datasets").load_digits(return_X_y=True)
    order = rng.permutation(len(pixels))[: n + n_queries]
    inputs = (pixels[order] / 16.0).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[digits[order]]
    weights = _initial(rng, inputs.shape[1], n_hidden)
    for _ in range(_EPOCHS):
        for batch in np.array_split(rng.permutation(n), max(n // _BATCH, 1)):
            step = _gradients(weights, inputs[batch], targets[batch])
            weights = tuple(w - _STEP * g.mean(axis=0) for w, g in zip(weights, step, strict=True))
    rows = np.concatenate([part.reshape(len(inputs), -1) for part in _gradients(weights, inputs, targets)], axis=1)
    return rows[:n], rows[n:]


def _initial(rng: np.random.Generator, n_inputs: int, n_hidden: int) -> _Weights:
    first = rng.normal(scale=np.sqrt(2.0 / n_inputs), size=(n_inputs, n_hidden))
    second = rng.normal(scale=np.sqrt(1.0 / n_hidden), size=(n_hidden, 10))
    zeros = np.zeros(n_hidden, dtype=np.float32), np.zeros(10, dtype=np.float32)
    return first.astype(np.float32), zeros[0], second.astype(np.float32), zeros[1]


def _gradients(weights: _Weights, inputs: NDArray[np.float32], targets: NDArray[np.float32]) -> _Weights:
    """Gradients of the cross-entropy of each example, one in each row."""
    first, first_bias, second, second_bias = weights
    hidden = np.maximum(inputs @ first + first_bias, 0.0)
    logits = hidden @ second + second_bias
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = shares / shares.sum(axis=1, keepdims=True) - targets
    below = (error @ second.T) * (hidden > 0.0)
    return (
        inputs[:, :, np.newaxis] * below[:, np.newaxis],
        below,
        hidden[:, :, np.newaxis] * error[:, np.newaxis],
        error,
    )
