"""What the tests compare the race with: slow, obvious, in plain NumPy.

`algorithm_1` is the text of the paper, line by line (`paper`). `slow_race` is the same algorithm as this package runs
it, with rounds, every rule for who is beaten and every objective, atom by atom and pair by pair (`rounds`), on either
kind of cells (`cells`).
"""

from banditmips.reference.cells import CodedCells, SampledCells, UniformSample, uniform_sample
from banditmips.reference.paper import Algorithm1Result, algorithm_1
from banditmips.reference.rounds import Rule, SlowRace, slow_race

__all__ = [
    "Algorithm1Result",
    "CodedCells",
    "Rule",
    "SampledCells",
    "SlowRace",
    "UniformSample",
    "algorithm_1",
    "slow_race",
    "uniform_sample",
]
