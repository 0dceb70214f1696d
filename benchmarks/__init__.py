"""Wall clock against peers: ``scripts/bench``, or ``python -m benchmarks`` where the extra ``bench`` is installed.

A *section* is one part of a run: a workload (atoms, queries and several ways of answering them), the growth with d, the
multiplies beside the published ones, or the grid of shapes. Each gives records (raw times, one for each way of
answering one kind of request), rows (ours beside the reference, warm and cold) and lines (another figure beside its
goal).

- `workloads`: what a workload is; `synthetic`, `options`, `batches`, `real_rows`: the workloads on drawn data, with
  every option and dtype, in batches for which no race pays, and on the real data that the package `real` builds
- `searchers`: what ways of answering have in common; `full`, `peers`, `ours`: the ways, each behind one small interface
- `measure`: the interleaved timing, warm and cold; `truth`: which answers are right
- `records`, `goals`: what was measured, what is behind the full pass, and which goals are missed
- `growth`, `multiplies`, `grid`: the sections that are not a plain workload
- `results`: the JSON file of each section; `report`, `charts`, `docs_page`, `machine`: what is printed and written

`scale` is a command of its own, ``python -m benchmarks.scale``: bytes and memory of searches of files on disk.
"""
