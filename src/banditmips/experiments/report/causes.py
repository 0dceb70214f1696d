"""Why a claim was not reproduced, or only partly, as far as that is known, and where it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Cause", "Known"]


@dataclass(frozen=True)
class Cause:
    """One reason.

    Attributes
    ----------
    text
        In a sentence or two.
    figure
        The figure of the page that shows it, or "".
    document
        The page of the documentation that has it, with the section, or "".
    rival
        The algorithm that has to be named in what was found, if the reason lies in that one.
    """

    text: str
    figure: str = ""
    document: str = ""
    rival: str = ""


_DIFFER = "docs/baselines.md, “Where they differ by more than 2x”"
_TEXT = "docs/paper.md, “Where the text and this package differ”"


class Known(Enum):
    """The reasons that are known."""

    VARIANCE = Cause(
        "The paper's constant is taken as sigma here. Read as a variance its root is the sigma, radii are narrower by "
        "that factor, and the claim comes out better: see the column for it.",
        "beyond_bounds",
        _TEXT,
    )
    READ_WHOLE = Cause(
        "With the constant as sigma, intervals are wider than the gaps until nearly every coordinate is read: the "
        "multiplies are close to n d, and grow with d.",
        "beyond_bounds",
        _TEXT,
    )
    SMALL_GAPS = Cause(
        "Where a gap is so small that telling it takes more than d coordinates, atoms are read whole. The larger d is, "
        "the more there is to read of them, until d exceeds what the gaps need.",
        "beyond_theorem1",
        "docs/reproduction.md, “What they do not say”",
    )
    AUTHORS_RADIUS = Cause(
        "In the authors' program the running mean divides by one batch too many (biased low), and delta is split over "
        "the atoms but not over the rounds: it stops earlier than the text's algorithm.",
        "figure2",
        "banditmips.experiments.published",
    )
    NARROW_RADIUS = Cause(
        "The authors' radius of BanditMIPS-alpha is narrower by √10: one variance is added for each batch of ten "
        "coordinates, and divided by the square of the number of coordinates.",
        "figure2",
        _DIFFER,
    )
    BIASED_MEAN = Cause(
        "A running mean over sorted coordinates is biased, so that the bound promises nothing; the authors' logs have "
        "58 to 95 % right answers.",
        "figure2",
        "docs/guarantees.md",
    )
    HASHES = Cause(
        "H2-ALSH-MIPS is among the baselines here; the paper's figure leaves it out. Its published counts charge all "
        "hashes of a subset anew in every round of the radius; counted once, it is the cheapest on ratings.",
        "figure3",
        _DIFFER,
        "H2-ALSH-MIPS",
    )
    OPERATIONS = Cause(
        "The published counts of Greedy-MIPS are operations, log2(d) for each coordinate of the heap and of the "
        "ranking; its products are 14 times fewer.",
        "figure3",
        _DIFFER,
    )
    SHORT_RANGE = Cause(
        "BoundedME takes products to lie within an interval of length 1, as published. They do not here, so that its "
        "promise is void; with the true interval it reads far more (“BoundedME, true range”).",
        "figure3",
        "docs/baselines.md, “The methods”",
        "BoundedME",
    )
    GRAPHS = Cause(
        "The authors' NAPG-MIPS is a modified hnswlib whose switch for the adjusted norms is not passed at every "
        "commit; their counts of both graphs are equal in the first steps of the sweep.",
        "figure3",
        _DIFFER,
    )
    NOISE = Cause(
        "R² tells how much of the spread a curve explains. Where the multiplies hardly grow there is only noise to "
        "explain, and where they grow every one of the three curves explains most of it: neither says that they are "
        "constant.",
        "figure1",
        "docs/reproduction.md, “What they do not say”",
    )
    FLAT_COLUMNS = Cause(
        "beta = 1 is the optimum only where the norms of the atoms' columns follow |q|. Where they are flat it is "
        "beta = 1/2, this package's default; where they follow neither, no beta is.",
        "beyond_sampling",
        _TEXT,
    )
    NEARLY_OPTIMAL = Cause(
        "The norms of the columns are flat here, so that beta = 1/2 has nearly the smallest variance already: there is "
        "nothing left to gain.",
        "beyond_sampling",
    )
    STANDS_OUT = Cause(
        "Variance is not what takes long here. Atoms are multiples of the query and noise, so that with Theorem 2's "
        "weights the terms are nearly the same but for rare coordinates at which the query is small, and the paired "
        "bound waits as long as one coordinate holds much of a sum of squares. After 58 coordinates the spread alone "
        "would leave 3.5 % of the atoms (3.9 % with |q|); that rule leaves 73 % (29 %).",
        "beyond_sampling",
        "docs/guarantees.md, “paired: a sample, without an index”",
    )
    FIRST_ROUND = Cause(
        "What is known of the atoms and a first round of fixed size decide nearly every search on ratings, whatever "
        "the weights are.",
        "beyond_sampling",
    )
    CACHED = Cause(
        "A warm start keeps values of atoms, not products: every query multiplies anew. What it saves is the gathering "
        "of single coordinates, and that has to outweigh the making of the cache.",
        "beyond_warm_start",
        "",
    )
    BLIND = Cause(
        "What decides sits in few coordinates, and a sample of coordinates may not see them; a smaller delta hardly "
        "helps.",
        "beyond_kinds",
        "docs/guarantees.md",
    )
    MARGIN = Cause(
        "The difference has the right sign, but it is smaller than the rule's margin, or no larger than the spread of "
        "the trials.",
    )
    SURROGATE = Cause(
        "The files were not at hand, and a surrogate stood in: its gaps are not those of the real data.",
        "run",
        "banditmips data list",
    )
    LOGS = Cause("The authors' own logs do not bear it out on this dataset either.")
    UNKNOWN = Cause("The cause is not known.")
