"""Atoms spread over the workers of a Dask cluster, searched as if they were in one place.

::

      DistributedMIPS(client).fit(atoms)              .search(queries, k)
                 |                                          |
      _sources.py   what the user calls atoms -> shards     |
                 |                                          |
                 |  each is read once on a worker,          |
                 |  and stays there with its cache          v
                 |         _mips.py        a batch of queries, exchange by exchange
                 |                          |                                   ^
                 |                       orders                              reports
                 |                          v                                   |
                 |         _exchange.py    for each query: who leads, who plays on, when it is over
                 v                          |                                   ^
              shards  <--- guests ------>  _shard.py   rounds on each shard's own atoms (race/parts.py),
                      (leaders' values)                with the leaders of other shards as guests

What goes to and fro is in ``_messages.py``: none of it grows with n or d. Dask alone decides what runs where.
Everything that runs on a worker is a pure function of its inputs, so what a killed worker held is computed again.
"""

from banditmips.distributed._mips import DistributedMIPS
from banditmips.distributed._result import DistributedResult, WorkerReport

__all__ = ["DistributedMIPS", "DistributedResult", "WorkerReport"]
