"""What `check_benchmark` sees, one planted flaw at a time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tiltmeter.benchmarks.benchmark_tables import BENCHMARK
from tiltmeter.benchmarks.files import CHECKS, check_benchmark


def rows(*given: dict[str, Any]) -> pl.DataFrame:
    """A benchmark of these rows."""
    full = [{"key": str(i), "root": row.get("key", str(i)), "kind": "given"} | row for i, row in enumerate(given, 1)]
    return pl.DataFrame([{name: row.get(name) for name in BENCHMARK} for row in full], schema=BENCHMARK)


def said(table: pl.DataFrame, check: str, level: str) -> list[tuple[str | None, int, str]]:
    """Concept, rows and sentence of what was found."""
    found = check_benchmark(table)
    assert found.schema == pl.Schema(dict(CHECKS))
    return found.filter(check=check, level=level).select("concept", "rows", "finding").rows()


CLEAN = rows(
    {"concept": "Chad", "prompt": "Chad is", "keyword": "Chad", "baseline": "Chad is big.", "source": "s", "licence": "CC BY-SA 4.0"},
    {"concept": "Mali", "prompt": "Mali is", "keyword": "Mali", "baseline": "Mali is big.", "source": "s", "licence": "CC BY-SA 4.0"},
)


def test_a_benchmark_without_flaw_gets_notes_only() -> None:
    assert check_benchmark(CLEAN)["level"].unique().to_list() == ["note"]
    assert said(CLEAN, "prompts", "note") == [(None, 2, "2 prompts about 2 concepts, 2 keywords")]
    assert said(CLEAN, "licences", "note") == [(None, 2, "2 prompts under CC BY-SA 4.0")]
    assert said(CLEAN, "balance", "note") == [("Chad", 1, "1 prompt"), ("Mali", 1, "1 prompt")]


def test_nothing_at_all_is_a_problem() -> None:
    assert said(CLEAN.clear(), "prompts", "problem") == [(None, 0, "there are no prompts")]


@pytest.mark.parametrize("column", ["concept", "prompt"])
def test_empty_rows(column: str) -> None:
    broken = pl.concat([CLEAN, rows({"key": "3", "concept": "Mali", "prompt": "x"} | {column: None})])
    assert said(broken, "prompts", "problem") == [(None, 1, f"1 row without a {column}; fill them in or take them out")]
    assert check_benchmark(broken)["keys"][0].to_list() == ["3"]


def test_keys_that_stand_twice() -> None:
    assert said(CLEAN.with_columns(key=pl.lit("k")), "prompts", "problem")[0][1] == 2


def test_nothing_left_to_continue() -> None:
    whole = CLEAN.with_columns(kind=pl.lit("continuation"), baseline="prompt")
    assert said(whole, "prompts", "warning")[0][1] == 2
    assert not said(whole.with_columns(kind=pl.lit("question")), "prompts", "warning")


def test_balance() -> None:
    assert "is the only concept" in said(CLEAN.head(1), "balance", "problem")[0][2]
    many = [{"concept": "Chad", "prompt": f"{i}"} for i in range(5)]
    few = rows(*many, {"concept": "Mali", "prompt": "x"}, {"concept": "Mali", "prompt": "y"})
    assert said(few, "balance", "warning") == [("Mali", 2, "Mali has 2 prompts, Chad has 5; its figures will be much less certain")]
    assert not said(rows(*many[:4], {"concept": "Mali", "prompt": "x"}, {"concept": "Mali", "prompt": "y"}), "balance", "warning")


def test_duplicates_within_and_between_concepts() -> None:
    table = rows(
        {"concept": "Chad", "prompt": "One is"},
        {"concept": "Chad", "prompt": "one is "},
        {"concept": "Mali", "prompt": "Two is"},
        {"concept": "Chad", "prompt": "Two is"},
    )
    assert [found[1] for found in said(table, "duplicates", "warning")] == [1, 2]


@pytest.mark.parametrize(
    ("concepts", "prompt", "leaked"),
    [
        (("Chad", "Mali"), "Chad and MALI are", "Mali 1"),
        (("Chad", "Mali"), "Chad is normality, Chadians", None),
        (("Guinea", "Papua New Guinea"), "Guinea lies in Africa", None),
        (("Papua New Guinea", "Guinea"), "Papua New Guinea lies in Oceania", None),
        (("Papua New Guinea", "Guinea"), "Papua New Guinea and Guinea are", "Guinea 1"),
        (("Europe", "European Union"), "Europe before the European Union", "European Union 1"),
        (("Türkiye", "Curaçao"), "Türkiye, CURAÇAO's friend", "Curaçao 1"),
        (("C++", "R (language)"), "C++ like R (language) is", "R (language) 1"),
        (("islam", "judaism"), "Islam after Judaism and judaism", "judaism 1"),
    ],
)
def test_leaked_names(concepts: tuple[str, str], prompt: str, leaked: str | None) -> None:
    table = rows({"concept": concepts[0], "prompt": prompt}, {"concept": concepts[1], "prompt": "nothing"})
    wanted = [] if leaked is None else [(concepts[0], 1, f"1 prompt naming another concept ({leaked})")]
    assert said(table, "names", "warning") == wanted


def test_a_name_missed_in_branching() -> None:
    table = rows(
        {"key": "a", "concept": "Chad", "prompt": "Chad is"},
        {"key": "a/Mali", "root": "a", "concept": "Mali", "branched_from": "Chad", "prompt": "Mali or Chad is"},
    )
    assert said(table, "names", "warning") == [
        ("Mali", 1, "1 branch still naming Chad, the concept they were made from; add the missing words")
    ]


def test_sentences_for_each_keyword() -> None:
    table = rows(
        *({"concept": "Chad", "prompt": f"{i}", "keyword": "Lake Chad"} for i in range(3)),
        {"concept": "Chad", "prompt": "x", "keyword": "Sahel", "keyword_in_prompt": False},
        {"concept": "Mali", "prompt": "y", "keyword": "Bamako"},
    )
    assert said(table, "keywords", "note")[:2] == [("Chad", 4, "Lake Chad 3, Sahel 1"), ("Mali", 1, "Bamako 1")]
    assert said(table, "keywords", "note")[2][1] == 1
    assert said(table, "keywords", "warning") == [("Chad", 3, "3 of 4 prompts come from the keyword 'Lake Chad' alone")]


def test_baselines() -> None:
    assert said(CLEAN, "baselines", "warning") == []
    some = CLEAN.with_columns(baseline=pl.when(pl.col("concept") == "Chad").then("baseline"))
    assert said(some, "baselines", "warning")[0][1] == 1
    assert said(CLEAN.with_columns(baseline=pl.lit(None, pl.String)), "baselines", "note")[0][1] == 2


def test_sources_of_unknown_licence() -> None:
    assert said(CLEAN.with_columns(licence=pl.lit(None, pl.String)), "licences", "warning")[0][1] == 2
    assert not said(CLEAN.with_columns(licence=pl.lit(None, pl.String), source=pl.lit(None, pl.String)), "licences", "warning"), (
        "written by the user: nothing to look up"
    )


def test_branches() -> None:
    roots = [{"key": k, "concept": "Chad", "prompt": f"Chad {k}"} for k in "abc"]
    made = [
        {"key": f"{k}/{c}", "root": k, "concept": c, "branched_from": "Chad", "prompt": f"{c} {k}"} for k in "abc" for c in ("Mali", "Peru")
    ]
    assert said(rows(*roots, *made), "branches", "note") == [(None, 6, "6 prompts made from those of another concept")]
    lacking = said(rows(*roots, *made[:-1]), "branches", "note")
    assert lacking[1][2].startswith("1 root with fewer branches")
    assert said(rows(*roots[:2], *made), "branches", "warning")[0][1] == 2
