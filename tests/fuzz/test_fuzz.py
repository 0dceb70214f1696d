"""The short form of fuzzing: some hundred cases of every kind, and all that ever went wrong."""

from __future__ import annotations

import json

import pytest
from fuzz_calls import random_call, random_command
from fuzz_estimators import random_estimator
from fuzz_files import FORMATS, file_case, random_damage, sound
from fuzzing import GOOD, Examiner, kept
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def examiner():
    running = Examiner()
    yield running
    running.close()


def short(n):
    return settings(
        max_examples=n, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


RANDOMS = st.randoms(use_true_random=False)


def check(examiner, case):
    verdict, detail = examiner.verdict(case)
    assert verdict in GOOD, (verdict, detail, case)
    return verdict


@pytest.mark.parametrize("kind", FORMATS)
def test_sound_files_are_answered_rightly(kind, examiner):
    """Else all the others would show nothing."""
    name, content = next(iter(sound(kind).items()))
    assert check(examiner, file_case(kind, name, content)) == "right"


@pytest.mark.parametrize("kind", FORMATS)
@short(25)
@given(random=RANDOMS)
def test_damaged_files(kind, random, examiner):
    check(examiner, random_damage(kind, random))


@short(200)
@given(random=RANDOMS)
def test_calls_against_the_full_product(random, examiner):
    check(examiner, random_call(random))


@short(100)
@given(random=RANDOMS)
def test_estimators_against_the_full_product(random, examiner):
    check(examiner, random_estimator(random))


@short(60)
@given(random=RANDOMS)
def test_command_lines(random, examiner):
    check(examiner, random_command(random))


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_what_went_wrong_once(path, examiner):
    case = json.loads(path.read_text())
    check(examiner, {key: value for key, value in case.items() if key != "went"})


def test_a_process_that_is_lost_is_a_crash_and_the_next_case_is_tried(examiner, monkeypatch):
    verdict, detail = examiner.verdict({"what": "no such thing"})
    assert verdict == "crash"
    assert detail.startswith("exit code")
    assert check(examiner, file_case("npy", "", sound("npy")[""])) == "right"
