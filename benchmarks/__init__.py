"""Wall clock against peers: ``scripts/bench``, or ``python -m benchmarks`` where the extra ``bench`` is installed.

A *section* is one part of a run: a workload (atoms, queries and several ways of answering them), the growth with d, the
multiplies beside the published ones, or the grid of shapes. Each gives records (raw times, one for each way of
answering) and lines (a figure beside its goal).

- `workloads`: what is searched, by what, and what it should reach
- `peers`, `ours`: the ways of answering, each behind one small interface
- `measure`: the interleaved timing; `truth`: which answers are right
- `records`, `goals`: what was measured, and whether it is enough
- `growth`, `multiplies`, `grid`: the sections that are not a plain workload
- `report`, `charts`, `machine`: what is printed and written

`scale` is a command of its own, ``python -m benchmarks.scale``: bytes and memory of searches of files on disk.
"""
