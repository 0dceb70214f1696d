"""The rules behind the verdicts, on rows made to agree, to disagree, and to be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banditmips.experiments.published import load_published
from banditmips.experiments.report import rules, theory_rules
from banditmips.experiments.report.causes import Known
from banditmips.experiments.report.claims import CLAIMS
from banditmips.experiments.report.factors import MARGIN, agreement
from banditmips.experiments.report.judging import Agreement, Evidence, Finding, Grade, Line
from banditmips.experiments.report.markdown import verdict_markdown
from banditmips.experiments.report.points import Estimate, aggregate, published_points
from banditmips.experiments.report.verdicts import HEADINGS, Verdict, judge_claims
from banditmips.experiments.rows import FIGURES, Row

ROW = Row("figure1", "A", "drawn", "BanditMIPS", "paper", 100, 1000, 1, 0.1, None, 0, 0, 1000.0, 1.0, 1e5, 1e-3)


def row(**values):
    made = replace(ROW, **values)
    return replace(made, naive=float(made.n * made.d))


def judge(rule, rows, source="paper"):
    return rule(Evidence(source, aggregate(rows)))


def growing(power, dataset="A", algorithm="BanditMIPS", figure="figure1", **values):
    sizes = (1000, 10_000, 100_000)
    return [
        row(d=d, multiplies=50.0 * d**power, dataset=dataset, algorithm=algorithm, figure=figure, **values)
        for d in sizes
    ]


@pytest.fixture(scope="module")
def published():
    return published_points(load_published())


@pytest.fixture(scope="module")
def verdicts(made_up_rows, published):
    return {verdict.claim.text: verdict for verdict in judge_claims(aggregate(made_up_rows), published)}


@pytest.mark.parametrize(
    ("powers", "grade"),
    [
        ({"A": 0.0, "B": 0.09}, Grade.REPRODUCED),
        ({"A": 0.0, "B": 0.11}, Grade.PARTLY),
        ({"A": 0.5, "B": 0.9}, Grade.NOT),
        ({"A": 0.0}, Grade.PARTLY),
        ({}, Grade.NOT_RUN),
    ],
)
def test_level_lines(powers, grade):
    rows = [each for dataset, power in powers.items() for each in growing(power, dataset)]
    finding = judge(rules.slope_between("figure1", ("A", "B"), "BanditMIPS"), rows)
    assert finding.grade is grade
    assert {dataset: line.agrees for dataset, line in finding.lines.items()} == {
        dataset: power <= rules.LEVEL for dataset, power in powers.items()
    }


def test_one_value_of_d_has_no_slope():
    finding = judge(rules.slope_between("figure1", ("A",), "BanditMIPS"), growing(0.0)[:1])
    assert finding.grade is Grade.NOT_RUN


def test_a_level_line_has_to_exclude_the_growth_that_is_denied():
    noisy = [replace(each, multiplies=count) for each, count in zip(growing(0.0), (50.0, 250.0, 50.0), strict=True)]
    lenient = rules.slope_between("figure1", ("A",), "BanditMIPS", below=9.0)
    strict = rules.slope_between("figure1", ("A",), "BanditMIPS")
    assert judge(lenient, noisy).grade is Grade.REPRODUCED
    finding = judge(strict, noisy)
    assert finding.lines["A"].agreement is Agreement.BARELY  # level, but not beyond the spread of the trials
    assert finding.grade is Grade.PARTLY
    growing_noisily = [replace(each, multiplies=each.multiplies * each.d) for each in noisy]
    assert judge(strict, growing_noisily).grade is Grade.NOT
    assert judge(strict, growing(0.05)).grade is Grade.REPRODUCED


def test_other_sources_and_algorithms_do_not_count():
    rule = rules.slope_between("figure1", ("A",), "BanditMIPS")
    assert judge(rule, growing(0.0, settings="ours")).grade is Grade.NOT_RUN
    assert judge(rule, growing(0.0, settings="ours"), source="ours").grade is Grade.REPRODUCED
    assert judge(rule, growing(0.0, algorithm="Bucket_AE")).grade is Grade.NOT_RUN


@pytest.mark.parametrize(("power", "grade"), [(1.0, Grade.REPRODUCED), (0.8, Grade.NOT), (1.3, Grade.NOT)])
def test_linear_growth(power, grade):
    assert judge(rules.grows_linearly("figure1", ("A",), "BanditMIPS", "d"), growing(power)).grade is grade


@pytest.mark.parametrize(
    ("accuracies", "grade"), [((1.0, 1.0), Grade.REPRODUCED), ((1.0, 0.9), Grade.PARTLY), ((0.8, 0.9), Grade.NOT)]
)
def test_right_answers(accuracies, grade):
    rows = [row(d=d, accuracy=accuracy) for d, accuracy in zip((10, 20), accuracies, strict=True)]
    assert judge(rules.every_trial_right("figure1", ("A",)), rows).grade is grade


def against_baselines(own, *others, accuracy=0.95):
    rows = [row(figure="figure2", dataset="MovieLens", multiplies=own)]
    return rows + [
        row(figure="figure2", dataset="MovieLens", algorithm=name, multiplies=count, accuracy=accuracy)
        for name, count in zip(("NEQ-MIPS", "BoundedME"), others, strict=False)
    ]


@pytest.mark.parametrize(
    ("factor", "grade", "told"),
    [(20, Grade.REPRODUCED, "20× fewer"), (17, Grade.PARTLY, "17× fewer"), (0.5, Grade.NOT, "2× more")],
)
def test_times_ahead_of_the_cheapest(factor, grade, told):
    finding = judge(
        rules.times_ahead("MovieLens", "BanditMIPS", 20, "NEQ-MIPS"), against_baselines(100, 100 * factor, 10_000)
    )
    assert finding.grade is grade
    assert finding.lines["MovieLens"].text.startswith(f"{told} than NEQ-MIPS (95.0\u00a0% right)")


def test_an_inaccurate_baseline_counts_but_the_next_is_told():
    rows = [*against_baselines(100, 500, accuracy=0.2), *against_baselines(100, 0, 3000)[2:]]
    text = judge(rules.times_ahead("MovieLens", "BanditMIPS", 20, "NEQ-MIPS"), rows).lines["MovieLens"].text
    assert text.startswith("5× fewer than NEQ-MIPS (20.0\u00a0% right), 30× fewer than BoundedME (95.0\u00a0% right)")


def test_baselines_are_those_of_the_paper_and_shared_by_both_settings():
    rows = against_baselines(100, 3000)
    rows += [replace(rows[0], algorithm=name, multiplies=1.0) for name in ("Naive", "Bucket_AE", "BanditMIPS, fitted")]
    rows.append(replace(rows[0], settings="ours", multiplies=50.0))
    rule = rules.times_ahead("MovieLens", "BanditMIPS", 20, "NEQ-MIPS")
    assert judge(rule, rows).lines["MovieLens"].text.startswith("30×")
    assert judge(rule, rows, source="ours").lines["MovieLens"].text.startswith("60×")


def test_only_baselines_of_the_same_d_and_k_are_compared():
    rows = against_baselines(100, 3000)
    rows += [replace(rows[0], d=5000, multiplies=1.0), replace(rows[1], k=5, multiplies=1.0)]
    assert (
        judge(rules.times_ahead("MovieLens", "BanditMIPS", 20, "NEQ-MIPS"), rows)
        .lines["MovieLens"]
        .text.startswith("30×")
    )


@pytest.mark.parametrize(
    ("multiplies", "accuracy", "agrees"),
    [
        (500.0, 1.0, Agreement.YES),
        (500.0, 0.9, Agreement.NO),
        (2000.0, 1.0, Agreement.NO),
        (990.0, 1.0, Agreement.BARELY),
    ],
)
def test_alpha_must_be_cheaper_by_a_margin_and_as_accurate(multiplies, accuracy, agrees):
    alpha = row(figure="figure2", algorithm="BanditMIPS-alpha", multiplies=multiplies, accuracy=accuracy)
    finding = judge(rules.alpha_needs_fewer(("A",), required=1), [row(figure="figure2"), alpha])
    assert finding.lines["A"].agreement is agrees


@pytest.mark.parametrize(
    ("factor", "least", "expected"),
    [
        ((1.5, 1.2, 1.9), MARGIN, Agreement.YES),
        ((1.5, 0.9, 2.5), MARGIN, Agreement.BARELY),  # no larger than the spread of the trials
        ((1.03, 1.02, 1.04), MARGIN, Agreement.BARELY),  # smaller than the margin
        ((0.97, 0.9, 1.1), MARGIN, Agreement.NO),
        ((20.0, 19.0, 21.0), 18.0, Agreement.YES),
        ((20.0, 15.0, 26.0), 18.0, Agreement.BARELY),
        ((1.2, 1.1, 1.3), 18.0, Agreement.BARELY),
    ],
)
def test_factors_need_a_margin_and_an_interval(factor, least, expected):
    assert agreement(Estimate(*factor, count=5), least) is expected


def test_a_difference_within_the_spread_of_the_trials_is_partly_reproduced():
    plain = [row(figure="figure2", trial=trial, multiplies=count) for trial, count in enumerate((900, 1000, 1100))]
    alphas = [
        replace(each, algorithm="BanditMIPS-alpha", multiplies=count)
        for each, count in zip(plain, (1000.0, 600.0, 500.0), strict=True)
    ]
    finding = judge(rules.alpha_needs_fewer(("A",), required=1), plain + alphas)
    assert finding.lines["A"].text.startswith("1.43× (")
    assert finding.grade is Grade.PARTLY
    clear = [replace(each, multiplies=each.multiplies / 1.43) for each in alphas]
    steady = [replace(each, algorithm="BanditMIPS-alpha", multiplies=each.multiplies / 1.43) for each in plain]
    assert judge(rules.alpha_needs_fewer(("A",), required=1), plain + steady).grade is Grade.REPRODUCED
    assert len(clear) == 3


@pytest.mark.parametrize(
    ("run", "cheaper", "grade"),
    [
        ("ABCD", "ABC", Grade.REPRODUCED),
        ("ABCD", "AB", Grade.PARTLY),
        ("ABCD", "", Grade.NOT),
        ("ABC", "ABC", Grade.PARTLY),
    ],
)
def test_three_of_four_are_enough_but_all_must_be_run(run, cheaper, grade):
    rows = [row(figure="figure2", dataset=name) for name in run]
    alphas = [
        replace(each, algorithm="BanditMIPS-alpha", multiplies=500.0 if each.dataset in cheaper else 2000.0)
        for each in rows
    ]
    assert judge(rules.alpha_needs_fewer("ABCD", required=3), rows + alphas).grade is grade


def test_trade_offs_compare_speed_ups_at_equal_accuracy():
    rows = [
        row(figure="figure3", multiplies=1000.0, accuracy=0.95),
        row(figure="figure3", multiplies=10.0, accuracy=0.5, delta=0.9),
        row(figure="figure3", algorithm="BoundedME", multiplies=2000.0, accuracy=1.0),
        row(figure="figure3", algorithm="NEQ-MIPS", multiplies=20.0, accuracy=0.3),
    ]
    finding = judge(rules.best_trade_off("figure3", ("A",)), rows)
    assert finding.lines["A"].text == "BanditMIPS 100×, BoundedME 50×: 2× fewer multiplies"
    assert finding.grade is Grade.REPRODUCED
    slower = [replace(rows[0], multiplies=3000.0), *rows[1:]]
    assert judge(rules.best_trade_off("figure3", ("A",)), slower).grade is Grade.NOT


def test_greedy_and_graphs():
    rows = [row(figure="figure2", algorithm="Greedy-MIPS", multiplies=3e3), row(figure="figure2")]
    assert judge(rules.needs_most(("A",), "Greedy-MIPS"), rows).grade is Grade.REPRODUCED
    assert (
        judge(rules.needs_most(("A",), "Greedy-MIPS"), [rows[0], replace(rows[1], multiplies=4e3)]).grade is Grade.NOT
    )
    graphs = [row(figure="figure3", algorithm=name) for name in ("HNSW-MIPS", "NAPG-MIPS")]
    rule = rules.worse_trade_off("figure3", ("A",), "HNSW-MIPS", "NAPG-MIPS")
    assert judge(rule, graphs).grade is Grade.NOT
    assert judge(rule, [replace(graphs[0], multiplies=1001.0), graphs[1]]).grade is Grade.PARTLY
    assert judge(rule, [replace(graphs[0], multiplies=1200.0), graphs[1]]).grade is Grade.REPRODUCED


@pytest.mark.parametrize(("power", "grade"), [(0.5, Grade.REPRODUCED), (0.3, Grade.NOT)])
def test_baselines_that_grow(power, grade):
    rows = growing(1.0, algorithm="NEQ-MIPS", figure="figure2") + growing(
        power, algorithm="BoundedME", figure="figure2"
    )
    assert judge(rules.baselines_grow(("A",)), rows).grade is grade


@pytest.mark.parametrize(
    ("failures", "grade"), [((0, 10), Grade.REPRODUCED), ((12, 10), Grade.REPRODUCED), ((30, 10), Grade.NOT)]
)
def test_failure_rates_are_tested_not_just_compared(failures, grade):
    rows = [
        row(figure="beyond_failures", delta=delta, extra={"failures": count, "trials": 1000})
        for delta, count in zip((0.01, 0.1), failures, strict=True)
    ]
    assert judge(theory_rules.failures_within_delta("beyond_failures"), rows).grade is grade


def test_theorem_1():
    rows = [row(figure="beyond_theorem1", d=d, extra={"bound_theorem1": 2000.0}) for d in (10, 20)]
    assert judge(theory_rules.within_theorem_1(), rows).grade is Grade.REPRODUCED
    assert (
        judge(theory_rules.within_theorem_1(), [*rows, row(figure="beyond_theorem1", d=30)]).grade is Grade.REPRODUCED
    )
    beyond = [*rows, row(figure="beyond_theorem1", d=30, multiplies=3e3, extra={"bound_theorem1": 2000.0})]
    assert judge(theory_rules.within_theorem_1(), beyond).grade is Grade.NOT


def test_a_bound_at_its_cap_says_little_and_is_told():
    extra = {"bound_theorem1": 2000.0, "capped": 0.95}
    text = judge(theory_rules.within_theorem_1(), [row(figure="beyond_theorem1", extra=extra)]).lines["A"].text
    assert (
        text == "0.5 to 0.5 of the bound; 95.0\u00a0% or more of its terms at their cap of 2 d, so that it says little"
    )
    extra = {"bound_theorem1": 2000.0, "capped": 0.5}
    assert judge(theory_rules.within_theorem_1(), [row(figure="beyond_theorem1", extra=extra)]).lines["A"].text == (
        "0.5 to 0.5 of the bound"
    )


def weighted(variances, multiplies=None):
    rows = []
    for beta, variance in variances.items():
        told = {"sampling": "optimal"} if beta is None else {"sampling": "weighted", "beta": beta}
        count = 1000.0 * variance if multiplies is None else multiplies[beta]
        extra = {"variance_over_optimal": variance}
        rows.append(row(figure="beyond_sampling", parameters=told, multiplies=count, extra=extra))
    return rows


def test_theorem_2():
    rows = weighted({None: 1.0, 0.0: 2.0, 0.5: 1.05, 1.0: 3.0})
    least = judge(theory_rules.least_variance(("A",)), rows)
    assert least.grade is Grade.REPRODUCED
    assert least.lines["A"].text == "uniform 2×, beta 0.5 1.05×, beta 1 3× its variance"
    assert judge(theory_rules.least_variance(("A",)), weighted({None: 1.0, 0.0: 0.9})).grade is Grade.NOT
    assert judge(theory_rules.optimal_needs_fewer(("A",), 0.0), rows).grade is Grade.REPRODUCED
    assert judge(theory_rules.optimal_needs_fewer(("A",), 0.5), rows).grade is Grade.PARTLY
    assert judge(theory_rules.beta_is_optimal(("A",), 1.0), rows).grade is Grade.NOT
    assert judge(theory_rules.beta_is_optimal(("A",), 0.5), rows).grade is Grade.REPRODUCED


@pytest.mark.parametrize(("seconds", "grade"), [(0.5, Grade.REPRODUCED), (0.99, Grade.PARTLY), (2.0, Grade.NOT)])
def test_warm_starts_are_judged_after_the_most_queries(seconds, grade):
    rows = [
        row(figure="beyond_warm_start", algorithm=name, parameters={"queries": m}, seconds=taken)
        for name, times in (("BanditMIPS", (1.0, 1.0)), ("warm", (9.0, seconds)))
        for m, taken in zip((1, 100), times, strict=True)
    ]
    finding = judge(theory_rules.warm_start_saves(("A",), "warm"), rows)
    assert finding.grade is grade
    assert "over 100 queries, 1× fewer multiplies" in finding.lines["A"].text


@pytest.mark.parametrize(("coefficient", "grade"), [(1.249, Grade.REPRODUCED), (1.3, Grade.NOT)])
def test_coefficients_are_compared_note_by_note(coefficient, grade):
    song = {"notes": ["C5", "G4"], "coefficients": [coefficient, 3.0]}
    rule = theory_rules.coefficients_right({"G4": 3.0, "C5": 1.25})
    rows = [row(figure="figure8", dataset="SimpleSong", extra=song)]
    assert judge(rule, rows).grade is grade
    assert judge(rule, [replace(rows[0], extra={"notes": ["A4"], "coefficients": [3.0]})]).grade is Grade.NOT


def test_bins_tell_their_preparation_beside_the_slope():
    rows = [
        row(figure="figure7", algorithm="Bucket_AE", n=n, multiplies=500.0, extra={"preparation_multiplies": 64 * n})
        for n in (1000, 10_000, 100_000)
    ]
    line = judge(rules.slope_between("figure7", ("A",), "Bucket_AE", "n", high=0.9, below=1.0), rows).lines["A"]
    assert line.agrees
    assert line.text.endswith("n 1k to 100k; 1.00 with the norms' multiplies in every query")


def test_both_readings_of_sigma_are_judged():
    rows = growing(0.9, dataset="Netflix") + growing(0.0, dataset="Netflix", settings="variance")
    rows += growing(0.0, dataset="NORMAL_CUSTOM")
    rule = rules.slope_between("figure1", ("NORMAL_CUSTOM", "Netflix"), "BanditMIPS")
    assert judge(rule, rows).grade is Grade.PARTLY
    both = judge(rule, rows, source="variance")
    assert both.grade is Grade.REPRODUCED  # a sigma of 1 is the same number as a variance
    assert not judge(rule, rows).lines["Netflix"].agrees
    verdicts = {verdict.claim.text: verdict for verdict in judge_claims(aggregate(rows), [])}
    causes = verdicts["The complexity of BanditMIPS does not scale with d"].causes("Netflix")
    assert causes[0] == Known.VARIANCE.value


def test_data_that_the_paper_does_not_have_are_told_and_do_not_count():
    rule = rules.slope_between("figure1", ("A",), "BanditMIPS")
    finding = judge(rule, growing(0.0) + growing(0.9, dataset="MovieLens-100K"))
    assert finding.grade is Grade.REPRODUCED
    assert finding.beside == ("MovieLens-100K",)
    assert not finding.lines["MovieLens-100K"].agrees


def test_every_claim_that_does_not_come_out_has_a_cause(verdicts, published):
    told = 0
    for verdict in verdicts.values():
        for dataset in verdict.datasets:
            line = verdict.findings[verdict.claim.decided_by].lines.get(dataset)
            causes = verdict.causes(dataset)
            assert bool(causes) == (line is not None and not line.agrees)
            told += bool(causes)
            if line is not None and line.agreement is Agreement.BARELY:
                assert causes[0] == Known.MARGIN.value
            if causes and dataset in verdict.surrogates:
                assert causes[-1] == Known.SURROGATE.value
    assert told > 3
    figures = set(FIGURES) | {"run", ""}
    assert {known.value.figure for known in Known} <= figures


def test_settings_that_differ():
    rows = [row(figure="figure3", delta=0.1), row(figure="figure3", delta=0.2, multiplies=400.0)]
    assert judge(rules.trades_off("figure3", ("A",)), rows).grade is Grade.REPRODUCED
    assert judge(rules.trades_off("figure3", ("A",)), rows[:1]).grade is Grade.NOT_RUN


def test_the_published_logs_are_judged_like_our_own(published):
    of = {verdict.claim.text: verdict.findings["published"] for verdict in judge_claims([], published)}
    ahead = of["On MovieLens, BanditMIPS is 20× faster than the next best algorithm"]
    assert (
        ahead.lines["MovieLens"].text == "20.2× fewer than NEQ-MIPS (100\u00a0% right); itself 100\u00a0% right, d 5k"
    )
    level = of["The complexity of BanditMIPS does not scale with d"]
    assert level.grade is Grade.PARTLY
    assert level.lines["NORMAL_CUSTOM"].text == "slope 0.86 (0.81 to 0.91), d 10k to 1M"
    assert of["On Sift-1M and CryptoPairs, BanditMIPS scales as O(1) with d"].lines["CryptoPairs"].agrees is False
    alpha = of["BanditMIPS-alpha outperforms BanditMIPS in 3 of 4 datasets"]
    assert alpha.lines["Netflix"].text == "1.34× fewer, 60.8\u00a0% right against 100\u00a0%"
    assert of["With buckets (Bucket_AE) it scales sublinearly with n"].grade is Grade.REPRODUCED


def test_without_rows_nothing_is_run(published):
    verdicts = judge_claims([], published)
    assert {verdict.grade for verdict in verdicts} == {Grade.NOT_RUN}
    for source in ("paper", "variance", "ours", "fitted"):
        assert {verdict.findings[source].grade for verdict in verdicts} == {Grade.NOT_RUN}


def test_every_claim_can_be_judged(verdicts):
    assert {verdict.grade for verdict in verdicts.values()} <= set(Grade) - {Grade.NOT_RUN}
    assert len(verdicts) == len(CLAIMS)


def test_every_figure_of_the_paper_has_a_claim():
    judged = {figure for claim in CLAIMS for figure in claim.figures}
    assert judged == set(FIGURES) - {"beyond_bounds", "beyond_clock"}
    where = " ".join(claim.where for claim in CLAIMS)
    assert all(f"figure {number}" in where for number in range(1, 10))
    assert all(theorem in where for theorem in ("Theorem 1", "Theorem 2", "abstract", "section 3.1"))


def test_surrogates_are_told(verdicts):
    ahead = verdicts["On MovieLens, BanditMIPS is 20× faster than the next best algorithm"]
    assert ahead.surrogates == ("MovieLens",)
    assert ahead.findings["published"].surrogates == ()
    assert verdicts["On SymmetricNormal, BanditMIPS scales linearly with d"].surrogates == ()


def test_datasets_that_were_not_run_are_told(published):
    rows = growing(0.0, dataset="NORMAL_CUSTOM")
    verdicts = {verdict.claim.text: verdict for verdict in judge_claims(aggregate(rows), published)}
    verdict = verdicts["The complexity of BanditMIPS does not scale with d"]
    assert verdict.grade is Grade.PARTLY
    assert verdict.notes() == ["1 of 4 datasets run"]


def test_the_rules_in_words_have_the_numbers_of_the_code():
    words = {claim.text: claim.rule for claim in CLAIMS}
    assert f"at most {rules.LEVEL:g}" in words["The complexity of BanditMIPS does not scale with d"]
    assert "at least 18, " in words["On MovieLens, BanditMIPS is 20× faster than the next best algorithm"]


def test_markdown_has_a_short_table_and_every_claim_with_its_datasets_and_reasons(verdicts):
    judged = list(verdicts.values())
    text = verdict_markdown(judged)
    short, *claims = text.split("\n\n**")
    table = short.splitlines()
    assert len(table) == 2 + len(CLAIMS)
    assert {line.replace("\\|", "").count("|") for line in table} == {5}
    assert len(claims) == len(CLAIMS)
    for number, (verdict, told) in enumerate(zip(judged, claims, strict=True), start=1):
        assert told.startswith(f"{number}. ")
        cells = [line for line in told.splitlines() if line.startswith("| ")]
        assert len(cells) == 2 + len(verdict.datasets)
        assert {line.replace("\\|", "").count("|") for line in cells} == {7}
        assert ("\nWhy:\n" in told) == any(verdict.causes(dataset) for dataset in verdict.datasets)
    assert "; surrogate data for MovieLens" in claims[0].splitlines()[0]
    assert "| ✗ slope 0.86 (0.81 to 0.91), d 10k to 1M |" in claims[3]
    assert "\n- NORMAL_CUSTOM: " in claims[3]


def test_beneath_every_not_and_partly_stands_why(verdicts):
    for verdict in verdicts.values():
        if verdict.grade in (Grade.NOT, Grade.PARTLY):
            counted = [dataset for dataset in verdict.datasets if dataset not in verdict.beside]
            assert any(verdict.causes(dataset) for dataset in counted) or verdict.notes()


@pytest.mark.parametrize(("rival", "other"), [("BoundedME", "H2-ALSH-MIPS"), ("H2-ALSH-MIPS", "BoundedME")])
def test_a_reason_that_lies_in_a_rival_is_given_where_that_one_is_named(rival, other):
    claim = next(claim for claim in CLAIMS if "best trade-off" in claim.text)
    lines = {"Netflix": Line(f"BanditMIPS 1.1×, {rival} 70×", Agreement.NO)}
    verdict = Verdict(claim, {source: Finding(Grade.NOT, lines) for source in HEADINGS})
    rivals = {cause.rival for cause in verdict.causes("Netflix")}
    assert rival in rivals
    assert other not in rivals


def test_who_is_outperformed_is_named():
    rows = [
        row(figure="figure2", dataset="A", algorithm=algorithm, multiplies=multiplies, trial=trial)
        for trial in range(3)
        for algorithm, multiplies in (("BanditMIPS", 1000.0), ("NEQ-MIPS", 5000.0), ("LSH-MIPS", 9000.0))
    ]
    line = judge(rules.outperforms_all(["A"], ["BanditMIPS"]), rows).lines["A"]
    assert line.text == "BanditMIPS 5× fewer than NEQ-MIPS"
    assert line.agrees
