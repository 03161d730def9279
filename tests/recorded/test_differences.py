"""Differences that a failing replay prints: at most twenty values, with the columns that identify them."""

from __future__ import annotations

import polars as pl

from support.recorded import recorded_findings
from support.recorded_differences import comparable, described, differences


def test_findings_that_are_equal_but_for_rounding_have_no_differences() -> None:
    findings = recorded_findings("religions-asked")
    shuffled = findings.sample(fraction=1.0, shuffle=True, seed=1)
    assert differences(findings, findings).is_empty()
    assert differences(findings, shuffled.with_columns(pl.col("estimate") * (1 + 1e-12))).is_empty()


def test_changed_missing_and_new_findings_are_rows() -> None:
    findings = recorded_findings("probes")
    row = pl.int_range(pl.len())
    estimates = pl.when(row == 3).then(pl.col("estimate") + 0.5).otherwise("estimate")
    marks = pl.when(row == 4).then(pl.lit("other")).otherwise("mark")
    changed = findings.with_columns(estimate=estimates, mark=marks)
    changes = differences(findings, changed.filter(row != 0))
    assert sorted(changes["column"]) == ["estimate", "finding", "mark"]
    assert changes.filter(column="finding").select("recorded", "now").row(0) == ("exists", "is missing")
    estimate = changes.filter(column="estimate").row(0, named=True)
    assert float(estimate["now"]) - float(estimate["recorded"]) == 0.5
    lines = described(changes).splitlines()
    assert lines[0] == "3 values of 3 findings differ from the recorded ones"
    names = comparable(findings)["name"]
    for line in lines[1:]:
        words = f"{line} ".replace(":", " ")
        assert any(f"name={name} " in words for name in names)
    assert f"was {estimate['recorded']}, is {estimate['now']}" in "\n".join(lines)


def test_at_most_twenty_differences_are_printed_with_the_number_of_all() -> None:
    findings = recorded_findings("probes")
    changes = differences(findings, findings.with_columns(pl.col("attempts") + 1))
    lines = described(changes).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[0].startswith(f"{findings.height:,} values of {findings.height:,} findings")
    assert lines[-1] == f"... and {findings.height - 20:,} more"
