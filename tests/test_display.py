"""What results, traces and indices look like in a console and in a notebook."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import banditmips as bm

RNG = np.random.default_rng(0)
ATOMS = 3 * RNG.normal(size=(300, 1)) + RNG.normal(size=(300, 4_000))
QUERIES = 2 + RNG.normal(size=(12, 4_000))
BEST = (QUERIES @ ATOMS.T).argmax(axis=1)


class Cells(HTMLParser):
    """Counts rows and checks that every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.texts = [], 0, []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def index():
    return bm.BanditMIPS(delta=0.01, trace=True).fit(ATOMS)


def test_a_result_is_one_short_line(index):
    one, batch, none = index.search(QUERIES[0], k=3), index.search(QUERIES, k=3), index.search(QUERIES[:0])
    for result in (one, batch, none, bm.search(ATOMS, QUERIES[0])):
        assert len(repr(result)) < 200
        assert "\n" not in repr(result)
    assert re.match(rf"<SearchResult: k=3; best {BEST[0]} with score [\d.]+; [\d.]+ % of n\*d multiplies; ", repr(one))
    assert repr(one).endswith(f"; {one.stop_reason}>")
    assert "12 queries, k=3; best " + ", ".join(map(str, BEST[:3])) + ", ...; " in repr(batch)
    assert "0 queries, k=1" in repr(none)
    assert f"{100 * one.n_multiplies / ATOMS.size:.3g} % of" in repr(one)
    assert one.share == one.n_multiplies / ATOMS.size
    np.testing.assert_array_equal(batch.share, batch.n_multiplies / ATOMS.size)


def test_stop_reasons_are_counted(index):
    reasons = [bm.search(ATOMS, QUERIES, budget=ATOMS.size // 10)[0], bm.search(ATOMS, QUERIES[0], delta=0.0)]
    both = bm.SearchResult.stack(reasons)
    for reason in both.stop_reason:
        assert str(reason) in repr(both)


def test_a_result_of_a_baseline_counts_its_multiplies():
    result = bm.baselines.REGISTRY["naive"]().fit(ATOMS).search(QUERIES[0])
    assert "1,200,000 multiplies" in repr(result)
    assert result.share is None


def test_results_as_tables(index):
    one = Cells(index.search(QUERIES[0], k=15)._repr_html_())
    assert one.rows == 1 + 10 + 1
    assert "and 5 more" in one.texts
    assert str(BEST[0]) in one.texts
    batch = Cells(index.search(QUERIES)._repr_html_())
    assert batch.rows == 1 + 10 + 1
    assert "and 2 more" in batch.texts
    assert Cells(index.search(QUERIES[:0])._repr_html_()).rows == 1


def test_what_a_user_calls_atoms_is_text_in_a_table():
    index = bm.BanditMIPS().fit(ATOMS, ids=[f"<b>{i}" for i in range(300)])
    result = index.search(QUERIES[0])
    assert f"best '<b>{BEST[0]}'" in repr(result)
    assert f"'<b>{BEST[0]}'" in Cells(result._repr_html_()).texts


def test_traces_and_rounds(index):
    trace = index.search(QUERIES[0], minimise="multiplies", rescore=False).trace
    assert len(trace.rounds) > 0
    assert re.match(rf"<Trace: {len(trace.rounds)} rounds? to [\d,]+ coordinates; [\d,]+ atoms to \d+; ", repr(trace))
    assert "\n" not in repr(trace)
    assert Cells(trace._repr_html_()).rows >= 1 + min(10, len(trace.rounds))
    first = trace.rounds[0]
    assert repr(first) == (
        f"<Round: {first.n_coordinates:,} coordinates, {first.n_survivors:,} survivors, leader {first.leader}>"
    )
    assert "no rounds" in repr(bm.search(ATOMS, QUERIES[0], delta=0.0, trace=True).trace)


def test_an_index_names_what_was_changed_and_what_it_holds(index):
    assert repr(bm.BanditMIPS()) == "BanditMIPS()"
    assert repr(bm.BanditMIPS(seed=None, n_jobs=-1)) == "BanditMIPS(seed=None, n_jobs=-1)"
    assert "not fitted" in bm.BanditMIPS()._repr_html_()
    assert repr(index).startswith("<BanditMIPS(delta=0.01, trace=True): atoms 300 x 4,000 float64, layout auto, extra")
    assert re.search(r"extra memory [\d.]+ kB>", repr(index))
    named = bm.BanditMIPS(layout="none").fit(ATOMS.astype(np.float32), ids=range(300)).remove([3, 4])
    assert "float32, layout none" in repr(named)
    assert "removed 2, ids integers" in repr(named)
    assert Cells(named._repr_html_()).rows == 5
