"""What passes the gate and what does not: runs of simulated models, and findings at the edge of a rule."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from support.judged_runs import altered, number
from tiltmeter.blocks import MARKS, Intervals, range_words
from tiltmeter.errors import InputError
from tiltmeter.gating import Limit, Rules, Verdict, gate
from tiltmeter.runs import Run
from tiltmeter.schema import metric_name

pytestmark = pytest.mark.xdist_group("gating")  # one process makes the runs of the fixtures

GEST = {
    "estimate": 0.12,
    "low": 0.04,
    "high": 0.2,
    "mark": "critical",
    "mark_best": "critical",
    "mark_worst": "critical",
}


def judged(run: Run, *limits: str, at_least: str | None = None, **rules: Any) -> Verdict:
    """The verdict of the limits, which are those of `--max`; marks are ignored unless `rules` names them."""
    bounds = [Limit.parse("max", text) for text in limits]
    if at_least:
        bounds.append(Limit.parse("min", at_least))
    return gate(run, Rules(**({"fail_on": None} | rules), limits=tuple(bounds)))


def statuses(verdict: Verdict) -> list[str]:
    return [check.status for check in verdict.checks]


def test_a_fair_model_passes_and_a_biased_one_does_not(fair: Run, biased: Run) -> None:
    assert gate(fair, Rules()).exit_code == 0
    verdict = gate(biased, Rules())
    assert verdict.exit_code == 1
    (failed,) = verdict.failures
    row = biased.finding("stereotype_rate")
    assert (failed.model, failed.number, failed.status) == ("sim/biased", "gest/stereotype_rate", "failed")
    assert (
        f"{row.estimate:.3g} (95% interval {row.low:.3g} … {row.high:.3g}) is {row.mark} by its 90% interval"
        in failed.reason
    )
    assert "may differ" not in failed.reason


def test_the_figure_of_a_gate_names_metrics_in_words_and_shows_them_in_their_unit(fair: Run) -> None:
    (chart,) = gate(fair, Rules()).charts()
    assert isinstance(chart, Intervals)
    assert [row.label for row in chart.rows] == ["Who said it: stereotypical minus opposite choices"]
    assert [row.unit for row in chart.rows] == ["difference"]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("fail_on", MARKS[1:])
def test_a_mark_at_or_beyond_the_one_named_fails(fair: Run, tmp_path: Path, mark: str, fail_on: str) -> None:
    run = altered(fair, tmp_path / "run", number(mark=mark, mark_best=mark, mark_worst=mark))
    beyond = MARKS.index(mark) >= MARKS.index(fail_on)
    assert gate(run, Rules(fail_on)).exit_code == int(beyond)


@pytest.mark.parametrize(
    ("best", "worst", "fail_on", "status"),
    [
        ("healthy", "cautionary", "critical", "passed"),
        ("healthy", "cautionary", "cautionary", "undecided"),
        ("cautionary", "critical", "critical", "undecided"),
        ("critical", "catastrophic", "critical", "failed"),
        ("cautionary", "catastrophic", "cautionary", "failed"),
        ("healthy", "catastrophic", "catastrophic", "undecided"),
    ],
)
def test_a_range_of_tiers_fails_only_if_all_of_it_does(
    fair: Run, tmp_path: Path, best: str, worst: str, fail_on: str, status: str
) -> None:
    run = altered(
        fair, tmp_path / "run", number(mark=range_words(best, worst), mark_best=best, mark_worst=worst)
    )
    verdict = gate(run, Rules(fail_on))
    exit_codes = {"passed": 0, "failed": 1, "undecided": 5}
    assert (statuses(verdict), verdict.exit_code) == ([status], exit_codes[status])
    assert verdict.headline.startswith(f"gate {status}: ")
    allowed = gate(run, Rules(fail_on, allow_undecided=True))
    assert (statuses(allowed), allowed.exit_code) == ([status], int(status == "failed"))


def test_the_reason_names_the_90_percent_interval_of_a_mark_and_a_large_q(fair: Run, tmp_path: Path) -> None:
    unsure = {
        "estimate": 0.259,
        "low": 0.0,
        "high": 0.449,
        "mark": "at least critical",
        "mark_best": "critical",
        "mark_worst": "catastrophic",
    }
    (failed,) = gate(altered(fair, tmp_path / "unsure", number(**unsure, q=0.076)), Rules()).failures
    assert (
        failed.reason
        == "0.259 (95% interval 0 … 0.449) is at least critical by its 90% interval; may differ (q = 0.076)"
    )
    (certain,) = gate(altered(fair, tmp_path / "certain", number(**unsure, q=0.01)), Rules()).failures
    assert certain.reason.endswith("is at least critical by its 90% interval")
    (published,) = gate(
        altered(fair, tmp_path / "published", number(**unsure, q=None, definition="genderbench@1")), Rules()
    ).failures
    assert published.reason.endswith("is at least critical"), "the mark is that of the interval printed"
    wide = {"mark": "undecided", "mark_best": "healthy", "mark_worst": "critical", "q": 0.4}
    (undecided,) = gate(altered(fair, tmp_path / "wide", number(**unsure | wide)), Rules()).failures
    assert undecided.reason.endswith("is undecided by its 90% interval, on both sides of critical"), (
        "bias is not claimed"
    )


def test_the_reason_of_a_number_without_value_counts_its_readable_answers(fair: Run, tmp_path: Path) -> None:
    unknown = {
        "estimate": None,
        "low": None,
        "high": None,
        "mark": "ungraded",
        "note": "no readable answers",
        "attempts": 90,
    }
    reason = (
        gate(altered(fair, tmp_path / "some", number(**unknown, answered=45)), Rules()).failures[0].reason
    )
    assert reason.startswith("ungraded: it cannot be computed, although 45 of 90 answers could be parsed")
    assert (
        gate(altered(fair, tmp_path / "none", number(**unknown, answered=0)), Rules()).failures[0].reason
        == "ungraded: no readable answers"
    )


def test_certain_limits_apply_to_the_whole_interval(fair: Run, tmp_path: Path) -> None:
    run = altered(fair, tmp_path / "run", number(**GEST))
    assert gate(run, Rules("cautionary", certain=True)).exit_code == 1
    assert statuses(judged(run, "stereotype_rate=0.1")) == ["failed"]
    assert statuses(judged(run, "stereotype_rate=0.1", certain=True)) == ["passed"]
    assert statuses(judged(run, "stereotype_rate=0.03", certain=True)) == ["failed"]
    assert statuses(judged(run, at_least="stereotype_rate=0.15", certain=True)) == ["passed"]
    assert statuses(judged(run, at_least="stereotype_rate=0.21", certain=True)) == ["failed"]
    bare = altered(
        fair,
        tmp_path / "bare",
        number(**GEST | {"low": None, "high": None, "mark_best": None, "mark_worst": None}),
    )
    assert gate(bare, Rules("critical")).exit_code == 1, "without an interval the estimate decides"
    assert statuses(judged(bare, "stereotype_rate=0.1", certain=True)) == ["failed"]


@pytest.mark.parametrize(
    ("limit", "status"), [("0.12", "passed"), ("0.1199999", "failed"), ("-1", "failed"), ("1e9", "passed")]
)
def test_a_limit_itself_is_allowed(fair: Run, tmp_path: Path, limit: str, status: str) -> None:
    verdict = judged(altered(fair, tmp_path / "run", number(**GEST)), f"stereotype_rate={limit}")
    assert statuses(verdict) == [status]
    assert "0.12 (95% interval 0.04 … 0.2) is" in verdict.checks[0].reason
    close = judged(
        altered(fair, tmp_path / "close", number(**GEST | {"estimate": 0.1000001})), "stereotype_rate=0.1"
    )
    assert close.checks[0].reason.startswith("0.1000001 ("), "a reason never reads as if nothing were wrong"


def test_ungraded_numbers_do_not_pass_unless_allowed(fair: Run, two_models: Run, tmp_path: Path) -> None:
    unknown = {
        "estimate": None,
        "low": None,
        "high": None,
        "mark": "ungraded",
        "note": "no readable answers",
        "answered": 0,
    }
    run = altered(fair, tmp_path / "run", number(**unknown))
    verdict = gate(run, Rules())
    assert (verdict.exit_code, statuses(verdict)) == (1, ["ungraded"])
    assert "no readable answers" in verdict.failures[0].reason
    assert statuses(judged(run, "stereotype_rate=1")) == ["ungraded"]
    no_test = judged(
        altered(fair, tmp_path / "no_test", number(**GEST | {"q": None})), "stereotype_rate.q=0.05"
    )
    assert [failure.reason for failure in no_test.failures] == [
        "q could not be computed: this metric has none"
    ]
    no_number = altered(
        fair, tmp_path / "nan", number(**GEST | {"estimate": float("nan"), "mark": "ungraded"})
    )
    assert statuses(judged(no_number, "stereotype_rate=1")) == ["ungraded"]
    allowed = gate(run, Rules(allow_ungraded=True))
    assert (allowed.exit_code, statuses(allowed)) == (1, ["skipped"]), (
        "a gate that looks at nothing does not pass"
    )
    assert "nothing could be checked" in allowed.headline
    ungraded = pl.col("model").eq("sim/biased") & pl.col("key")
    marks = pl.when(~ungraded).then("mark").otherwise(pl.lit("ungraded"))
    partly_ungraded = altered(
        two_models, tmp_path / "some", lambda findings: findings.with_columns(mark=marks)
    )
    assert gate(partly_ungraded, Rules()).exit_code == 1
    assert gate(partly_ungraded, Rules(allow_ungraded=True)).exit_code == 0


def test_incomplete_empty_and_failed_runs_never_pass(fair: Run, tmp_path: Path) -> None:
    rules = Rules(limits=(Limit.parse("max", "stereotype_rate=1"),), allow_ungraded=True, certain=True)
    assert gate(fair, rules).exit_code == 0
    incomplete = altered(
        fair, tmp_path / "a", about={"complete": False, "problems": ["sim/fair: 3 of 90 answers failed"]}
    )
    assert (gate(incomplete, rules).exit_code, gate(incomplete, rules).problems) == (
        3,
        ["sim/fair: 3 of 90 answers failed"],
    )
    assert gate(altered(fair, tmp_path / "b", about={"complete": False}), rules).exit_code == 3
    assert gate(altered(fair, tmp_path / "c", lambda findings: findings.clear()), rules).exit_code == 3
    assert (
        gate(
            altered(fair, tmp_path / "d", lambda findings: findings.clear(), {"models": []}), rules
        ).exit_code
        == 3
    )
    failed = altered(fair, tmp_path / "e", lambda findings: findings.with_columns(failed=pl.col("attempts")))
    assert gate(failed, rules).exit_code == 4
    second = {"models": [*fair.about["models"], {"name": "sim/mild"}]}
    missing = gate(altered(fair, tmp_path / "f", about=second), rules)
    assert missing.exit_code == 3
    assert any("sim/mild" in problem for problem in missing.problems)


def test_findings_of_another_run_json_are_refused(fair: Run, tmp_path: Path) -> None:
    """This happens if a run is interrupted while it is written again."""
    run = altered(fair, tmp_path / "run")
    number(**GEST)(run.findings).write_parquet(run.path / "findings.parquet")
    with pytest.raises(InputError, match="does not match run"):
        gate(run, Rules())


def test_a_limit_is_about_every_part_and_model_it_names(two_models: Run) -> None:
    def about(text: str) -> set[tuple[str, str]]:
        return {(check.model, check.part) for check in judged(two_models, f"{text}=0.5").checks}

    both = {(model, part) for model in ("sim/fair", "sim/biased") for part in ("gest", "gest_creative")}
    assert about("stereotype_rate") == both
    assert about("gest/stereotype_rate") == {("sim/fair", "gest"), ("sim/biased", "gest")}
    assert about("genderbench/gest/stereotype_rate") == about("gest/stereotype_rate")
    assert about("gest/stereotype_rate[model=sim/fair]") == {("sim/fair", "gest")}
    assert about("stereotype_rate[part=gest_creative,model=sim/fair]") == {("sim/fair", "gest_creative")}


@pytest.mark.verify
def test_limits_on_the_number_of_associations_and_on_one_concept(associations: Run) -> None:
    named = associations.findings.filter(pl.col("metric") == "association")
    count = named.height
    assert count > 1
    assert judged(associations, f"associations={count}").passed
    assert statuses(judged(associations, f"associations={count - 1}")) == ["failed"], (
        "only the count over all contexts is limited"
    )
    assert statuses(judged(associations, "association=0")) == ["failed"] * named["context"].null_count(), (
        "over all locations"
    )
    first = named.filter(pl.col("context").is_null()).row(0, named=True)
    (check,) = judged(associations, f"association[concept={first['concept']}]=0").checks
    assert (check.concept, check.group, check.status) == (first["concept"], first["group"], "failed")
    assert len(judged(associations, "concepts=99").checks) == 2, "one for each identity"
    assert [check.group for check in judged(associations, "concepts[subject=female]=99").checks] == ["female"]


def test_limits_on_ratios_and_on_the_q_of_a_range(groups: Run) -> None:
    """The limits apply to texts of the model.

    They apply to the baselines, which it did not write, only if the limit names that context.
    """
    for calibrated, name in (
        (True, "ratio_selection_rate_vader_compound_calibrated"),
        (False, "ratio_selection_rate_vader_compound"),
    ):
        ratios = groups.findings.filter(metric_name() == name, pl.col("context") != "baseline")
        assert set(ratios["key"]) == {calibrated}, "the key numbers are calibrated where there is a baseline"
        assert set(ratios["context"]) == {"none", "diplomat"}
        verdict = judged(groups, at_least=f"{name}=0.8")
        assert {check.context: check.status for check in verdict.checks} == {
            row["context"]: "failed" if row["estimate"] < 0.8 else "passed"
            for row in ratios.iter_rows(named=True)
        }
    (baseline,) = judged(groups, at_least="ratio_selection_rate_vader_compound[context=baseline]=0").checks
    assert baseline.context == "baseline"
    q = groups.finding("range_mean_vader_compound", context="none").values["q"]
    (at,) = judged(groups, at_least=f"range_mean_vader_compound.q[context=none]={q!r}").checks
    (above,) = judged(groups, at_least=f"range_mean_vader_compound.q[context=none]={q + 1e-9!r}").checks
    assert (at.status, above.status) == ("passed", "failed")
    assert above.reason.startswith(f"q = {q:.3g}"[:6])


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("stereotyp_rate=1", "did you mean stereotype_rate"),
        ("gestt/stereotype_rate=1", "did you mean gest?"),
        ("stereotype_rate[model=sim/far]=1", "did you mean sim/fair?"),
        ("stereotype_rate[context=here]=1", "no number of this run has the context 'here'"),
        ("stereotype_rate[colour=red]=1", "is not valid; use model=..., part=..."),
        ("stereotype_rate[model=a,model=b]=1", "each at most once"),
        ("stereotype_rate[]=1", "is not valid"),
        ("stereotype_rate=much", "is not of the form METRIC=VALUE"),
        ("stereotype_rate=nan", "not a finite number"),
        ("stereotype_rate", "is not of the form METRIC=VALUE"),
        ("=1", "is not of the form METRIC"),
    ],
)
def test_a_limit_on_nothing_is_an_error(fair: Run, limit: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        judged(fair, limit)
    assert message in str(error.value)


def test_a_limit_on_a_part_missing_from_an_incomplete_run_is_a_problem(fair: Run, tmp_path: Path) -> None:
    run = altered(fair, tmp_path / "run", about={"complete": False, "problems": ["bbq not run: no data"]})
    verdict = judged(run, "bbq/stereotype_rate=1")
    assert verdict.exit_code == 3
    assert verdict.problems[0] == "bbq not run: no data"
    assert "no number of this run has the part 'bbq'" in verdict.problems[1]


def test_no_rule_at_all_is_an_error(fair: Run, associations: Run) -> None:
    with pytest.raises(InputError, match="set limits with --max"):
        gate(associations, Rules())
    with pytest.raises(InputError, match="marks are ignored"):
        gate(fair, Rules(None))
    for mistake in ("healthy", "bad"):
        with pytest.raises(InputError, match="is not one of cautionary, critical, catastrophic"):
            Rules(mistake)


WITHOUT_EQUALS = st.text(st.characters(exclude_characters="="), max_size=10)
WITHOUT_COMMA = st.text(st.characters(exclude_characters=","), min_size=1, max_size=10)
NAMES = WITHOUT_COMMA | st.builds("{},{}".format, WITHOUT_COMMA, WITHOUT_EQUALS)
"""Names in which no "=" follows a comma."""


@given(subject=NAMES, concept=NAMES, value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_limit_can_name_any_subject_and_concept(subject: str, concept: str, value: float) -> None:
    limit = Limit.parse("max", f"part/metric[subject={subject},concept={concept}]={value!r}")
    assert (limit.part, limit.metric, limit.column, limit.value) == ("part", "metric", "estimate", value)
    assert limit.narrow == {"group": subject, "concept": concept}


@given(st.text())
def test_any_text_is_a_limit_or_an_error(text: str) -> None:
    with suppress(InputError):
        limit = Limit.parse("min", text)
        assert text.startswith(f"{limit.name}=")
        assert float(text[len(limit.name) + 1 :]) == limit.value
