"""What `check_benchmark` sees, one planted flaw at a time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from support.benchmark_rows import benchmark
from tiltmeter.benchmarks.files import CHECKS, check_benchmark


def rows(*given: dict[str, Any]) -> pl.DataFrame:
    return benchmark(given)


def said(table: pl.DataFrame, check: str, level: str) -> list[tuple[str | None, int, str]]:
    """Concept, rows and sentence of what was found."""
    found = check_benchmark(table)
    assert found.schema == pl.Schema(dict(CHECKS))
    return found.filter(check=check, level=level).select("concept", "rows", "finding").rows()


CLEAN = rows(
    *(
        {"concept": name, "prompt": f"{name} is", "keyword": name, "baseline": f"{name} is big.", "source": "s", "licence": "CC BY-SA 4.0"}
        for name in ("Chad", "Mali")
    )
)


def test_a_benchmark_without_flaw_gets_notes_only_and_nothing_at_all_is_a_problem() -> None:
    assert set(check_benchmark(CLEAN)["level"]) == {"note"}
    assert said(CLEAN, "prompts", "note") == [(None, 2, "2 prompts about 2 concepts, 2 keywords")]
    assert said(CLEAN, "licences", "note") == [(None, 2, "2 prompts under CC BY-SA 4.0")]
    assert said(CLEAN, "balance", "note") == [("Chad", 1, "1 prompt"), ("Mali", 1, "1 prompt")]
    assert said(CLEAN.clear(), "prompts", "problem") == [(None, 0, "there are no prompts")]


@pytest.mark.parametrize("column", ["concept", "prompt"])
def test_empty_rows(column: str) -> None:
    broken = pl.concat([CLEAN, rows({"key": "3", "concept": "Mali", "prompt": "x"} | {column: None})])
    assert said(broken, "prompts", "problem") == [(None, 1, f"1 row without a {column}; fill them in or take them out")]
    assert check_benchmark(broken)["keys"][0].to_list() == ["3"]


def test_keys_that_stand_twice_and_nothing_left_to_continue() -> None:
    assert said(CLEAN.with_columns(key=pl.lit("k")), "prompts", "problem")[0][1] == 2
    whole = CLEAN.with_columns(kind=pl.lit("continuation"), baseline="prompt")
    assert said(whole, "prompts", "warning")[0][1] == 2
    assert not said(whole.with_columns(kind=pl.lit("question")), "prompts", "warning")


def test_balance() -> None:
    assert "is the only concept" in said(CLEAN.head(1), "balance", "problem")[0][2]
    many = [{"concept": "Chad", "prompt": f"{i}"} for i in range(5)]
    two = [{"concept": "Mali", "prompt": "x"}, {"concept": "Mali", "prompt": "y"}]
    told = [("Mali", 2, "Mali has 2 prompts, Chad has 5; its figures will be much less certain")]
    assert said(rows(*many, *two), "balance", "warning") == told
    assert not said(rows(*many[:4], *two), "balance", "warning")


def test_duplicates_within_and_between_concepts() -> None:
    given = (("Chad", "One is"), ("Chad", "one is "), ("Mali", "Two is"), ("Chad", "Two is"))
    table = rows(*({"concept": concept, "prompt": prompt} for concept, prompt in given))
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
    told = "1 branch still naming Chad, the concept they were made from; add the missing words"
    assert said(table, "names", "warning") == [("Mali", 1, told)]


def test_sentences_for_each_keyword() -> None:
    table = rows(
        *({"concept": "Chad", "prompt": f"{i}", "keyword": "Lake Chad"} for i in range(3)),
        {"concept": "Chad", "prompt": "x", "keyword": "Sahel", "keyword_in_prompt": False},
        {"concept": "Mali", "prompt": "y", "keyword": "Bamako"},
    )
    *keywords, without = said(table, "keywords", "note")
    assert keywords == [("Chad", 4, "Lake Chad 3, Sahel 1"), ("Mali", 1, "Bamako 1")]
    assert without[1] == 1
    assert said(table, "keywords", "warning") == [("Chad", 3, "3 of 4 prompts come from the keyword 'Lake Chad' alone")]


def test_baselines() -> None:
    assert said(CLEAN, "baselines", "warning") == []
    some = CLEAN.with_columns(baseline=pl.when(pl.col("concept") == "Chad").then("baseline"))
    assert said(some, "baselines", "warning")[0][1] == 1
    assert said(CLEAN.with_columns(baseline=pl.lit(None, pl.String)), "baselines", "note")[0][1] == 2


def test_sources_of_unknown_licence() -> None:
    unknown = CLEAN.with_columns(licence=pl.lit(None, pl.String))
    assert said(unknown, "licences", "warning")[0][1] == 2
    assert not said(unknown.with_columns(source=pl.lit(None, pl.String)), "licences", "warning"), "the user's own: nothing to look up"


def test_branches() -> None:
    roots = [{"key": k, "concept": "Chad", "prompt": f"Chad {k}"} for k in "abc"]
    pairs = [(k, c) for k in "abc" for c in ("Mali", "Peru")]
    made = [{"key": f"{k}/{c}", "root": k, "concept": c, "branched_from": "Chad", "prompt": f"{c} {k}"} for k, c in pairs]
    assert said(rows(*roots, *made), "branches", "note") == [(None, 6, "6 prompts made from those of another concept")]
    assert said(rows(*roots, *made[:-1]), "branches", "note")[1][2].startswith("1 root with fewer branches")
    assert said(rows(*roots[:2], *made), "branches", "warning")[0][1] == 2
