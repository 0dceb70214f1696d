"""Atoms spread over the workers of a Dask cluster, searched as if they were in one place.

::

      DistributedMIPS(client).fit(atoms)              .search(queries, k)
                 |                                          |
      _sources.py   what the user calls atoms -> parts      |
                 |                                          v
      _shard.py     each part is read once   _batch.py   a batch of queries, exchange by exchange
                 |  on a worker, and stays      |    ^
                 |  there with its codes        |    |   _exchange.py   for each query: who leads, who plays on
                 |                              |    |                  and how far, when it is over
                 |                         orders    reports
                 |                              v    |
                 |                          _serving.py   by calls to the workers, or by tasks of Dask
                 v                              v    |
              shards ------------------->  _tasks.py, _shard_query.py   the race of an index (core.loop) on each
                                                                        shard's own atoms, which pauses to report

      _cluster.py   where tasks and calls run, and for how long they are waited for
      _saving.py    a folder with all shards, and a list of them

What goes to and fro is in ``_messages.py``: none of it grows with n or d. Everything that runs on a worker is a pure
function of its inputs, so what a killed worker held is computed again.
"""

from banditmips.distributed._mips import DistributedMIPS
from banditmips.distributed._result import DistributedResult, WorkerReport

__all__ = ["DistributedMIPS", "DistributedResult", "WorkerReport"]
