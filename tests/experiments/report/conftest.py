"""Made-up rows of every figure, smooth curves with seeded noise that nobody measured; and a browser to look with."""

from __future__ import annotations

import base64
import json
import math
import os
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from banditmips.experiments.rows import ROWS_FILE, RUN_FILE, Row

FOUR = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens")
SURROGATES = ("Netflix", "MovieLens", "Sift-1M", "CryptoPairs")
# Multiplies of a baseline at n = 100 over d, made up.
BASELINES = {
    "BoundedME": 80.0,
    "LSH-MIPS": 95.0,
    "H2-ALSH-MIPS": 60.0,
    "NEQ-MIPS": 20.0,
    "PCA-MIPS": 25.0,
    "HNSW-MIPS": 45.0,
    "NAPG-MIPS": 42.0,
    "Greedy-MIPS": 220.0,
}
OWN = {
    ("BanditMIPS", "paper"): 9000.0,
    ("BanditMIPS-alpha", "paper"): 4000.0,
    ("BanditMIPS", "ours"): 2500.0,
    ("BanditMIPS", "fitted"): 1500.0,
}
VARIANTS = {
    ("hoeffding", "uniform"): 20_000.0,
    ("hoeffding_serfling", "uniform"): 15_000.0,
    ("bernstein", "uniform"): 12_000.0,
    ("paired", "uniform"): 6000.0,
    ("paired", "auto"): 4000.0,
}
N_TRIALS = 3

BASE = Row(
    figure="figure1",
    dataset="NORMAL_CUSTOM",
    origin="drawn",
    algorithm="BanditMIPS",
    settings="paper",
    n=100,
    d=1000,
    k=1,
    delta=0.001,
    epsilon=0.0,
    trial=0,
    seed=0,
    multiplies=1.0,
    accuracy=1.0,
    naive=1e5,
    seconds=1e-3,
)


class _Maker:
    def __init__(self):
        self.rows = []
        self._noise = np.random.default_rng(0)

    def add(self, multiplies, n_trials=N_TRIALS, **values):
        """Add the trials of one setting, with 5 % of noise."""
        base = replace(BASE, **values)
        origin = "surrogate" if base.dataset in SURROGATES else base.origin
        base = replace(base, naive=float(base.n * base.d), origin=origin)
        for trial in range(n_trials):
            count = min(multiplies * math.exp(0.05 * self._noise.normal()), 2.5 * base.naive)
            self.rows.append(replace(base, trial=trial, seed=trial, multiplies=count, seconds=count * 1e-9))

    def figure_1_and_4_and_8_and_9(self):
        for settings, base in (("paper", 15_000.0), ("ours", 5_000.0), ("fitted", 3_000.0)):
            for d in (10_000, 100_000, 1_000_000):
                for dataset in FOUR:
                    growth = (d / 10_000) ** (0.5 if dataset == "NORMAL_CUSTOM" else 0.01)
                    self.add(base * growth, dataset=dataset, d=d, settings=settings)
                self.add(base, figure="figure4", dataset="Sift-1M", n=10, d=d, settings=settings)
                self.add(base, figure="figure4", dataset="CryptoPairs", d=d, settings=settings)
                if settings != "fitted":
                    song = {"notes": ["G4", "C5"], "coefficients": [3.0, 1.25]}
                    values = {"figure": "figure8", "dataset": "SimpleSong", "settings": settings, "extra": song}
                    self.add(base / 5, d=26 * d, n=10, **values)
                self.add(98.0 * d, figure="figure9", dataset="SymmetricNormal", d=d // 10, settings=settings)

    def figure_2(self):
        for dataset in FOUR:
            for d in (1000, 3000, 10_000):
                for (algorithm, settings), count in OWN.items():
                    self.add(count, figure="figure2", dataset=dataset, d=d, k=5, algorithm=algorithm, settings=settings)
                for algorithm, factor in BASELINES.items():
                    values = {"figure": "figure2", "dataset": dataset, "d": d, "k": 5, "algorithm": algorithm}
                    self.add(factor * d, delta=None, epsilon=None, accuracy=0.93, **values)

    def figures_3_5_6(self):
        for figure, k in (("figure3", 1), ("figure5", 5), ("figure6", 10)):
            for dataset in FOUR:
                for step in range(6):
                    accuracy = 1 - 0.03 * step
                    values = {"figure": figure, "dataset": dataset, "n": 1000, "d": 10_000, "k": k}
                    for (algorithm, settings), count in OWN.items():
                        own = {"algorithm": algorithm, "settings": settings, "delta": 10.0 ** (step - 6)}
                        self.add(30 * count / (1 + step), n_trials=2, accuracy=accuracy, **own, **values)
                    for algorithm, factor in BASELINES.items():
                        swept = {"budget": 2**step}
                        count = 1e5 * factor / (1 + step)
                        other = {"algorithm": algorithm, "delta": None, "parameters": swept, **values}
                        self.add(count, n_trials=2, accuracy=max(1 - 0.15 * step, 0.0), **other)

    def figure_7(self):
        for dataset in ("CORRELATED_NORMAL_CUSTOM", "Netflix"):
            for settings in ("paper", "ours"):
                for algorithm, power in (("BanditMIPS", 1.0), ("Bucket_AE", 0.6), ("Bucket_AE, exact norms", 0.1)):
                    values = {"figure": "figure7", "dataset": dataset, "algorithm": algorithm, "settings": settings}
                    for n in (5000, 20_000, 80_000):
                        self.add(20.0 * n**power, n=n, d=800, parameters={"scaling": "n"}, **values)
                    if algorithm != "BanditMIPS":
                        for d in (1000, 8000, 50_000):
                            prepared = {"preparation_multiplies": 64_000, "blas_seconds": d * 5e-7}
                            self.add(2000.0, n=1000, d=d, parameters={"scaling": "d"}, extra=prepared, **values)

    def beyond(self):
        for dataset in FOUR:
            for d in (1000, 10_000, 100_000):
                for (bound, sampling), count in VARIANTS.items():
                    settings = "paper" if bound == "hoeffding" else "ours"
                    told = {"bound": bound, "sampling": sampling}
                    self.add(count, figure="beyond_bounds", dataset=dataset, d=d, settings=settings, parameters=told)
                for settings, count in (("paper", 9000.0), ("ours", 4000.0), ("fitted", 2000.0)):
                    values = {"dataset": dataset, "d": d, "settings": settings}
                    times = {"blas_seconds": d * 5e-9} | ({} if settings == "paper" else {"fast_seconds": d * 1e-9})
                    self.add(count, figure="beyond_clock", extra=times, **values)
                    bound = {"bound_theorem1": 160_000.0, "capped": 0.2}
                    self.add(count, figure="beyond_theorem1", extra=bound, **values)
            for delta, failures in ((0.001, 0), (0.01, 1), (0.1, 4), (0.3, 11)):
                for bound, settings in (("hoeffding", "paper"), ("paired", "ours")):
                    told = {"bound": bound, "sampling": "uniform" if settings == "paper" else "auto"}
                    counted = {"failures": failures // (1 + (settings == "paper")), "trials": 200}
                    values = {"dataset": dataset, "delta": delta, "settings": settings, "parameters": told}
                    self.add(9000.0, figure="beyond_failures", n_trials=2, extra=counted, **values)

    def beyond_sweeps(self):
        for dataset in FOUR:
            for settings, count in (("paper", 9000.0), ("ours", 4000.0), ("fitted", 2000.0)):
                for step in range(3):
                    values = {"dataset": dataset, "settings": settings, "accuracy": 1 - 0.05 * step}
                    self.add(count / (1 + step), figure="beyond_delta", delta=10.0 ** (step - 3), **values)
                    self.add(count / (1 + step), figure="beyond_epsilon", epsilon=10.0 ** (step - 3), **values)

    def beyond_the_rest(self):
        for settings in ("paper", "ours"):
            for dataset in ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "MovieLens", "uneven columns"):
                for beta in (0.0, 0.5, 1.0, None):
                    told = {"sampling": "optimal"} if beta is None else {"sampling": "weighted", "beta": beta}
                    times = 1.0 if beta is None else 1.0 + abs(beta - 0.5)
                    values = {"dataset": dataset, "settings": settings, "parameters": told}
                    extra = {"variance_over_optimal": times}
                    self.add(3000.0 * times, figure="beyond_sampling", extra=extra, **values)
            for dataset in ("NORMAL_CUSTOM", "MovieLens"):
                for algorithm, times in (("BanditMIPS", 3.0), ("BanditMIPS, warm start", 1.0)):
                    for m in (1, 10, 100):
                        values = {"dataset": dataset, "settings": settings, "algorithm": algorithm}
                        extra = {"blas_seconds": 2e-5}
                        self.add(
                            9000.0 * times, figure="beyond_warm_start", parameters={"queries": m}, extra=extra, **values
                        )
        for kind in ("spikes", "word counts"):
            for settings, bound in (("ours", "default without an index"), ("fitted", "default after fit")):
                for delta in (0.1, 0.01):
                    extra = {"failures": 0, "trials": 100, "sampled": 90}
                    values = {"dataset": kind, "settings": settings, "delta": delta, "parameters": {"bound": bound}}
                    self.add(900.0, figure="beyond_kinds", n_trials=1, extra=extra, **values)


@pytest.fixture(scope="package")
def made_up_rows():
    """Rows of every figure, made up."""
    maker = _Maker()
    maker.figure_1_and_4_and_8_and_9()
    maker.figure_2()
    maker.figures_3_5_6()
    maker.figure_7()
    maker.beyond()
    maker.beyond_sweeps()
    maker.beyond_the_rest()
    return maker.rows


@pytest.fixture(scope="package")
def made_up_run(made_up_rows, tmp_path_factory):
    """The directory of a finished run, made up."""
    directory = tmp_path_factory.mktemp("run")
    (directory / ROWS_FILE).write_text("".join(row.to_json() + "\n" for row in made_up_rows))
    run = {
        "quick": True,
        "figures": ["figure1"],
        "origins": dict.fromkeys(SURROGATES, "surrogate"),
        "machine": {"processor": "made up", "cores": 2},
        "versions": {"banditmips": "0", "numpy": "0"},
        "seeds": [0, 1, 2],
    }
    (directory / RUN_FILE).write_text(json.dumps(run))
    return directory


class Browser:
    """A headless Chromium, spoken to in its own protocol (CDP) over a pair of pipes: no driver, no packages.

    Attributes
    ----------
    problems
        Errors and warnings of the console, exceptions, and requests that failed, since the last `open`.
    """

    FLAGS = (
        "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
        "--remote-debugging-pipe"
    )

    def __init__(self, program, profile):
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        start = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", start, "bash", program, *self.FLAGS.split(), f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._number, self._received, self._session = 0, b"", None
        self._events, self.problems = [], []
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _receive(self, seconds=180):
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._answers], [], [], seconds)
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("Chromium does not answer" if not ready else "Chromium has ended")
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, told = event.get("method"), event.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(told["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.problems.append(told)
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(told["entry"])
        elif method == "Network.requestWillBeSent" and told["request"]["url"].startswith("http"):
            self.problems.append(told["request"]["url"])

    def open(self, path, *, width=1280, height=900, phone=False, scripts=True):
        """Show a file in a window of some size."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self._events.clear()
        self.problems.clear()
        self.call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._note(self._receive())

    def run(self, script):
        """Return the value of a JavaScript expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def screenshot(self, selector, path):
        """Write a picture of one element, however far down the page (a picture of all of it takes seconds)."""
        box = self.run(
            f"""(() => {{ const box = document.querySelector("{selector}").getBoundingClientRect();
            return {{x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1}}; }})()"""
        )
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=box)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def print(self, path):
        """Write the page as it would be printed."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
        return path

    def close(self):
        """End the browser and everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)


@pytest.fixture(scope="package")
def browser(tmp_path_factory):
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium to look at the page with; scripts/chromium installs one where it can")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
