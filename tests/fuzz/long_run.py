"""The long form of fuzzing: cases of every kind in turn, until the time is over. See scripts/fuzz."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from fuzz_calls import random_call, random_command
from fuzz_estimators import random_estimator
from fuzz_files import FORMATS, damage, n_damages, random_damage
from fuzzing import GOOD, Examiner, keep


def cases(random: Random, only: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (kind, case): damage of every format, some in order and some at random; calls; estimators; commands."""
    formats = [kind for kind in FORMATS if only in (None, kind)]
    systematic = {kind: _scattered(kind, random) for kind in formats}
    while True:
        for kind in formats:
            for _ in range(5):
                yield kind, next(systematic[kind])
                yield kind, random_damage(kind, random)
        if only in (None, "calls"):
            for _ in range(40):
                yield "calls", random_call(random)
        if only in (None, "estimators"):
            for _ in range(10):
                yield "estimators", random_estimator(random)
        if only in (None, "commands"):
            for _ in range(3):
                yield "commands", random_command(random)


def _scattered(kind: str, random: Random) -> Iterator[dict[str, Any]]:
    """Every truncation and every flipped bit, in strides, so that a short run sees all parts of a file; for ever."""
    n = n_damages(kind)
    stride = next(step for step in range(n // 3 + 1, 2 * n) if math.gcd(step, n) == 1)
    position = random.randrange(n)
    while True:
        yield damage(kind, position)
        position = (position + stride) % n


def run(seed: int, only: str | None, stop: float) -> Counter[tuple[str, str]]:
    """Try cases until the time is over, keep those that go wrong, and count (kind, verdict)."""
    counts: Counter[tuple[str, str]] = Counter()
    examiner = Examiner()
    for kind, case in cases(Random(seed), only):
        verdict, detail = examiner.verdict(case)
        counts[kind, verdict] += 1
        if verdict not in GOOD:
            print(f"{kind}: {verdict}: {detail[:200]} -> {keep(case, verdict, detail)}", flush=True)
        if time.monotonic() > stop:
            break
    examiner.close()
    return counts


def main() -> int:
    """Run, report, and return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--seed", type=int, default=None, help="of the random cases; by default another each time")
    parser.add_argument("--jobs", type=int, default=1, help="processes that try cases (1)")
    parser.add_argument(
        "--only", choices=[*FORMATS, "calls", "estimators", "commands"], default=None, help="one kind of cases"
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else time.time_ns() % 2**32
    stop = time.monotonic() + 60 * given.minutes
    with ThreadPoolExecutor(given.jobs) as pool:
        parts = [pool.submit(run, seed + job, given.only, stop) for job in range(given.jobs)]
        counts = sum((part.result() for part in parts), Counter[tuple[str, str]]())
    verdicts = sorted({verdict for _, verdict in counts})
    print(f"seed {seed}, {counts.total():,} cases")
    print("| | " + " | ".join(verdicts) + " |")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | " + " | ".join(f"{counts[kind, verdict]:,}" for verdict in verdicts) + " |")
    return int(any(verdict not in GOOD for verdict in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
