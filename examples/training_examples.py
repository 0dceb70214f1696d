"""Which training examples made the model say this? Proponents and opponents of a prediction, by per-example gradients.

A network of 38,410 weights learns scikit-learn's digits, 3 % of them wrongly labelled. Atoms are the gradients of the
training examples' losses, the query that of a test image with what the model says of it: the largest inner products
belong to examples that made it surer, the smallest to those that spoke against it. Run it with:
    pip install ".[plot,real]"  &&  python examples/training_examples.py FOLDER_FOR_THE_PICTURE
The wrong turn: raw gradients. Examples that the model gets badly wrong have huge ones and turn up for every prediction.
Atoms of length one (the cosine) ask what an example is about, not how surprising it was.
"""

import sys
import timeit
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import banditmips as bm


def gradients(model, images, labels):
    """Gradient of the log loss of each example, over all weights and biases of a network with one hidden layer."""
    hidden = np.maximum(images @ model.coefs_[0] + model.intercepts_[0], 0)
    error = model.predict_proba(images) - np.eye(10)[labels]
    back = (error @ model.coefs_[1].T) * (hidden > 0)
    parts = images[:, :, None] * back[:, None, :], back, hidden[:, :, None] * error[:, None, :], error
    return np.hstack([part.reshape(len(images), -1) for part in parts]).astype(np.float32)


def main(folder, n_train=1_500, n_hidden=512, n_queries=50):
    images, labels = load_digits(return_X_y=True)
    images, is_wrong = images / 16, np.random.default_rng(0).random(n_train) < 0.03
    labels[:n_train][is_wrong] = (labels[:n_train][is_wrong] + 1) % 10
    model = MLPClassifier(n_hidden, random_state=0)
    for _ in range(40):
        model.partial_fit(images[:n_train], labels[:n_train], classes=range(10))
    raw, tested = gradients(model, images[:n_train], labels[:n_train]), images[n_train:][:n_queries]
    queries = gradients(model, tested, said := model.predict(tested))
    atoms = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    index = bm.BanditMIPS().fit(atoms)
    both, wrong_turn = index.search(queries, k=5, ends="both"), np.argsort(-(queries @ raw.T), axis=1)[:, :5]
    rows = {"for it": both.indices, "against it": both.smallest.indices, "wrong turn": wrong_turn}
    searching = timeit.timeit(lambda: [index.search(query, k=5) for query in queries], number=2) / 2 / len(queries)
    multiplying = timeit.timeit(lambda: [atoms @ query for query in queries], number=2) / 2 / len(queries)
    print(f"one search {1e3 * searching:.2f} ms, full product {1e3 * multiplying:.2f} ms")
    print({name: f"{is_wrong[found].mean():.0%} of the labels are wrong" for name, found in rows.items()})
    figure = Figure(figsize=(7, 4), layout="constrained")
    for line, (name, found) in zip(figure.subplots(3, 6), rows.items(), strict=True):
        shown = [(images[example], f"label {labels[example]}") for example in found[0]]
        for axes, (image, title) in zip(line, [(tested[0], f"says {said[0]}"), *shown], strict=True):
            axes.imshow(image.reshape(8, 8), cmap="Oranges" if axes is line[0] else "Greys")
            axes.set(title=title, xticks=[], yticks=[], ylabel=name if axes is line[0] else "")
    figure.savefig(Path(folder) / "training-examples.png", dpi=110)
    return rows, is_wrong, (queries, atoms)


if __name__ == "__main__":
    main(*sys.argv[1:] or ".")
