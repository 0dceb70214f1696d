"""Trying cases in a process that may be lost, and keeping those that go wrong."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOUND = HERE / "found"
"""Cases that went wrong once; the tests try them again."""
PATIENCE = 120.0
"""Seconds after which a case counts as one that never ends; the longest take a fraction of one."""

GOOD = ("right", "error", "other")
"""Verdicts that are as they should be: the right answer, an error that names what is wrong, or (of a file that carries
no checksums, or was edited with right ones) the answer for what the file now says."""


class Examiner:
    """Hands cases to the process that tries them, and starts another one when that is lost."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def verdict(self, case: dict[str, Any]) -> tuple[str, str]:
        """Try a case: (verdict, detail); "crash" and "hang" are the two that the process cannot report itself."""
        child = self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(case).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            return "crash", f"exit code {self.close()}"
        if not select.select([child.stdout], [], [], PATIENCE)[0]:
            self.close()
            return "hang", f"nothing came for {PATIENCE:.0f} s"
        line = child.stdout.readline()
        if not line:
            return "crash", f"exit code {self.close()}"
        answer = json.loads(line)
        return answer["verdict"], answer["detail"]

    def _start(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
            self._child = subprocess.Popen(
                [sys.executable, str(HERE / "fuzz_child.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        return self._child

    def close(self) -> int | None:
        """End the process; its exit code, if it had ended before."""
        child, self._child = self._child, None
        if child is None:
            return None
        try:
            code = child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            code = None
        child.kill()
        child.communicate()
        return code


def keep(case: dict[str, Any], verdict: str, detail: str) -> Path:
    """Keep a case that went wrong."""
    text = json.dumps({**case, "went": f"{verdict}: {detail}"}, indent=1)
    path = FOUND / f"{case['what']}-{hashlib.sha256(json.dumps(case).encode()).hexdigest()[:12]}.json"
    FOUND.mkdir(exist_ok=True)
    path.write_text(text + "\n")
    return path


def kept() -> list[Path]:
    """The cases that were kept."""
    return sorted(FOUND.glob("*.json"))
