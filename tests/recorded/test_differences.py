"""What a failing replay prints: each changed value with the columns that identify it, and not more than a screen."""

from __future__ import annotations

import polars as pl

from support.recorded import recorded_findings
from support.recorded_differences import comparable, described, differences


def test_equal_findings_and_rounding_give_no_difference() -> None:
    findings = recorded_findings("religions-asked")
    shuffled = findings.sample(fraction=1.0, shuffle=True, seed=1)
    assert differences(findings, findings).is_empty()
    assert differences(findings, shuffled.with_columns(pl.col("estimate") * (1 + 1e-12))).is_empty()


def test_changed_missing_and_new_findings_are_rows() -> None:
    findings = recorded_findings("probes")
    row = pl.int_range(pl.len())
    changed = findings.with_columns(
        estimate=pl.when(row == 3).then(pl.col("estimate") + 0.5).otherwise("estimate"),
        mark=pl.when(row == 4).then(pl.lit("other")).otherwise("mark"),
    )
    changes = differences(findings, changed.filter(row != 0))
    assert sorted(changes["column"]) == ["estimate", "finding", "mark"]
    assert changes.filter(column="finding").select("recorded", "now").row(0) == ("exists", "is missing")
    estimate = changes.filter(column="estimate").row(0, named=True)
    assert float(estimate["now"]) - float(estimate["recorded"]) == 0.5
    lines = described(changes).splitlines()
    assert lines[0] == "3 values of 3 findings differ from the recorded ones"
    names = comparable(findings)["name"]
    assert all(any(f"name={name} " in f"{line} ".replace(":", " ") for name in names) for line in lines[1:])
    assert f"was {estimate['recorded']}, is {estimate['now']}" in "\n".join(lines)


def test_at_most_twenty_values_are_printed_with_their_number() -> None:
    findings = recorded_findings("probes")
    changes = differences(findings, findings.with_columns(pl.col("attempts") + 1))
    lines = described(changes).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[0].startswith(f"{findings.height:,} values of {findings.height:,} findings")
    assert lines[-1] == f"... and {findings.height - 20:,} more"
