"""Benchmark files: reading, refusals, and the flaws that `check_benchmark` reports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from support.benchmark_rows import benchmark as table
from support.property_tests import PER_TEST_FIXTURES
from tiltmeter.benchmarks._files import (
    CHECKS,
    check_benchmark,
    describe_benchmark,
    read_benchmark,
    read_tiers,
    sample_benchmark,
)
from tiltmeter.benchmarks._tables import BENCHMARK, KEYWORDS, SENTENCES
from tiltmeter.errors import InputError
from tiltmeter.reports import write_table


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_written_by_hand_needs_concepts_and_prompts_only(tmp_path: Path) -> None:
    read = read_benchmark(
        written(tmp_path / "mine.csv", 'concept,prompt,note\nChad,Chad is,x\n Mali ," Mali, is ",y\n')
    )
    assert read.schema == pl.Schema(BENCHMARK)
    assert read.select("key", "root", "concept", "prompt", "kind", "branched_from", "baseline").rows() == [
        ("1", "1", "Chad", "Chad is", "given", None, None),
        ("2", "2", "Mali", " Mali, is ", "given", None, None),
    ]
    read = read_benchmark(
        written(tmp_path / "b.csv", "key,root,concept,prompt\nq,,Chad,Chad is\nq/Mali,q,Mali,Mali is\n")
    )
    assert read.select("root", "branched_from").rows() == [("q", None), ("q", "Chad")], (
        "a branch knows the concept of its root"
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
def test_the_same_rows_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    rows = [
        {
            "key": "a",
            "concept": "Chad",
            "prompt": 'He said: "yes,\nno"',
            "keyword_in_prompt": True,
            "position": 3,
        },
        {
            "key": "a/Mali",
            "root": "a",
            "concept": "Mali",
            "prompt": "Ma\tli",
            "keyword_in_prompt": False,
            "branched_from": "Chad",
        },
    ]
    path, wanted = tmp_path / f"b.{suffix}", table(rows)
    if suffix == "json":
        path.write_text(json.dumps(wanted.to_dicts()))
    else:
        write_table(wanted, path)
    assert read_benchmark(path).equals(wanted)


@settings(suppress_health_check=PER_TEST_FIXTURES, max_examples=25)
@given(
    texts=st.lists(st.text(min_size=1).filter(lambda text: bool(text.strip())), min_size=1, max_size=5),
    suffix=st.sampled_from(["csv", "jsonl", "parquet"]),
)
def test_prompts_come_back_letter_by_letter(tmp_path: Path, texts: list[str], suffix: str) -> None:
    wanted = table([{"concept": "c", "prompt": text} for text in texts])
    wanted = wanted.filter(pl.col("prompt").str.strip_chars() != "")  # what Polars holds to be blank as well
    if wanted.is_empty():
        return
    path = tmp_path / f"b.{suffix}"
    write_table(wanted, path)
    assert read_benchmark(path)["prompt"].to_list() == wanted["prompt"].to_list()


def test_the_folder_of_a_build_is_read_as_its_table(tmp_path: Path) -> None:
    write_table(table([{"concept": "Chad", "prompt": "p"}]), tmp_path / "benchmark.parquet")
    assert read_benchmark(tmp_path)["prompt"].to_list() == ["p"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty does not contain benchmark\.parquet"):
        read_benchmark(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.csv", "concept,promt\nChad,x\n", "b.csv has no column 'prompt' (did you mean promt?)"),
        (
            "b.csv",
            "concept,prompt,baselines\nChad,x,y\n",
            "unknown column 'baselines'; did you mean baseline?",
        ),
        (
            "b.csv",
            "concept,prompt\nChad,x\nMali,  \n",
            "row 3 is one without a prompt; fill in the prompt or remove the row",
        ),
        ("b.csv", "concept,prompt\n,x\n", "row 2 is one without a concept"),
        ("b.csv", "key,concept,prompt\na,Chad,x\na,Mali,y\n", "row 2 is one with a duplicate key"),
        (
            "b.csv",
            "concept,prompt,position\nChad,x,first\n",
            "row 2, column 'position': 'first' is not a whole number",
        ),
        (
            "b.csv",
            "concept,prompt,keyword_in_prompt\nChad,x,maybe\n",
            "row 2, column 'keyword_in_prompt': 'maybe' is not true or false",
        ),
        ("b.csv", "concept,prompt\n", "contains no prompts"),
        ("b.csv", "", "b.csv"),
        ("b.txt", "concept,prompt\n", "unknown file extension '.txt'"),
        ("b.json", '[{"concept": "Chad"},\n', "b.json, line 2 is not valid JSON"),
        (
            "b.json",
            '[{"concept": "Chad", "prompt": ["x"]}]',
            "row 1, column 'prompt' must be text, not a list",
        ),
        ("b.json", "[3]", "row 1 is not an object"),
        ("b.json", "3", "expected a list or an object"),
        ("b.json", '{"Chad": "x"}', "Chad must be a list of prompts"),
        ("b.jsonl", '{"concept": "Chad", "prompt": "x"}\n{"con\n', "b.jsonl, line 2 is not valid JSON"),
        ("b.parquet", "no parquet", "b.parquet cannot be read"),
        ("none.csv", None, "there is no file"),
    ],
)
def test_what_cannot_be_used_is_said_with_file_row_and_column(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        written(tmp_path / name, text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_benchmark(tmp_path / name)
    assert name in str(caught.value)


def test_rows_that_cannot_be_run_can_be_looked_at(tmp_path: Path) -> None:
    assert (
        read_benchmark(
            written(tmp_path / "b.csv", "key,concept,prompt\na,Chad,\na,,y\n"), strict=False
        ).height
        == 2
    )


def test_prompts_by_concept_and_by_keyword(tmp_path: Path) -> None:
    path = written(tmp_path / "b.json", json.dumps({"Chad": ["one"], "Mali": {"Bamako": ["two", "three"]}}))
    rows = [("Chad", None, "one"), ("Mali", "Bamako", "two"), ("Mali", "Bamako", "three")]
    assert read_benchmark(path).select("concept", "keyword", "prompt").rows() == rows


def test_sageds_continuations_and_questions(tmp_path: Path) -> None:
    split = (
        "keyword,category,domain,prompts,baseline,keywords_containment,source_tag\n"
        "Lima,Peru,countries,Lima is,Lima is big.,True,wiki\n"
    )
    columns = ("domain", "concept", "keyword", "prompt", "baseline", "kind", "keyword_in_prompt")
    row = read_benchmark(written(tmp_path / "split.csv", split)).select(columns).row(0)
    assert row == ("countries", "Peru", "Lima", "Lima is", "Lima is big.", "continuation", True)
    csv_text = (
        "keyword,category,domain,questions,original_answer\nPeru,Peru,countries,How big?,Lima is big.\n"
    )
    row = (
        read_benchmark(written(tmp_path / "asked.csv", csv_text)).select("kind", "prompt", "baseline").row(0)
    )
    assert row == ("question", "How big?", "Lima is big.")


BRANCHED = [
    *((concept, "wiki", f"{concept} {number}") for concept in ("Peru", "Chad") for number in ("one", "two")),
    *(("chad", "br_wiki_cat_Peru", f"chad {number}") for number in ("one", "two")),
]


def saged_csv(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    frame = pl.DataFrame(rows, schema=["category", "source_tag", "prompts"], orient="row")
    frame.with_columns(keyword=pl.lit("k"), domain=pl.lit("countries"), baseline=pl.col("prompts")).write_csv(
        path
    )
    return path


def test_sageds_branches_are_tied_to_their_roots_where_that_can_be_told(tmp_path: Path) -> None:
    read = read_benchmark(saged_csv(tmp_path / "b.csv", BRANCHED))
    assert read["concept"].to_list() == ["Peru", "Peru", "Chad", "Chad", "Chad", "Chad"], (
        "a branch has the name its roots have"
    )
    assert read["source_tag"].to_list() == ["wiki"] * 4 + ["branch of Peru: wiki"] * 2
    assert read["branched_from"].to_list() == [None] * 4 + ["Peru"] * 2
    assert read["root"].to_list() == ["1", "2", "3", "4", "1", "2"]


@pytest.mark.parametrize("order", [[4, 0, 1, 5, 2, 3], [0, 2, 1, 3, 4, 5], [0, 1, 2, 3, 4]])
def test_sageds_branches_of_a_shuffled_or_sampled_file_are_tied_to_nothing(
    tmp_path: Path, order: list[int]
) -> None:
    read = read_benchmark(saged_csv(tmp_path / "b.csv", [BRANCHED[i] for i in order]))
    assert read["root"].to_list() == read["key"].to_list()
    assert read.filter(pl.col("branched_from") == "Peru").height == sum(i >= 4 for i in order)


TIER = [
    {
        "category": "Peru",
        "domain": "countries",
        "category_shared_source": [
            {
                "source_tag": "w",
                "source_type": "wiki_urls",
                "source_specification": ["https://example.org/Peru"],
            }
        ],
        "keywords": {
            "Lima": {
                "keyword_type": "sub-concepts",
                "scraped_sentences": [["Lima is the capital of Peru.", "w"], ["Lima lies by the sea.", "w"]],
                "targeted_source": [
                    {"source_tag": "l", "source_type": "local_paths", "source_specification": ["peru.txt"]}
                ],
            },
            "Cusco": {},
        },
    }
]


def test_sageds_json_tiers(tmp_path: Path) -> None:
    tiers = read_tiers(written(tmp_path / "t.json", json.dumps(TIER)))
    assert (tiers.keywords.schema, tiers.sentences.schema) == (pl.Schema(KEYWORDS), pl.Schema(SENTENCES))
    assert tiers.keywords["keyword"].to_list() == ["Lima", "Cusco"]
    sentences = [
        ("Peru", "Lima", "w", text) for text in ("Lima is the capital of Peru.", "Lima lies by the sea.")
    ]
    assert tiers.sentences.select("concept", "keyword", "source_tag", "sentence").rows() == sentences


def test_a_tier_without_prompts_is_no_benchmark_and_one_with_them_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"but no prompts; name it under sources\.saged"):
        read_benchmark(written(tmp_path / "t.json", json.dumps(TIER)))
    prompts: dict[str, Any] = {
        "concept": "Peru",
        "keywords": {"Lima": {"prompts": ["Lima is", ["Lima has", "w"]]}},
    }
    read = read_benchmark(written(tmp_path / "p.json", json.dumps(prompts)))
    rows = [("Peru", "Lima", "Lima is", None), ("Peru", "Lima", "Lima has", "w")]
    assert read.select("concept", "keyword", "prompt", "source_tag").rows() == rows


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        ({"keywords": {}}, "item 1: concept is missing"),
        ({"category": "Peru", "keywords": 3}, "item 1: keywords must be a mapping, found 3"),
        (
            {"category": "Peru", "keywords": {"Lima": {"scraped_sentences": "x"}}},
            "item 1: keywords.Lima.scraped_sentences must be a list such as [one, another], found 'x'",
        ),
        (
            {"category": "Peru", "keywords": {"Lima": {"scraped_sentences": [3]}}},
            "keywords.Lima.scraped_sentences.0 must be a text or [text, source tag], found 3",
        ),
        ({"category": "Peru"}, "is not a file of SAGED"),
    ],
)
def test_damaged_tiers(tmp_path: Path, tier: object, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_tiers(written(tmp_path / "t.json", json.dumps([tier])))


def test_writing_leaves_nothing_half_written(tmp_path: Path) -> None:
    rows = table([{"concept": "Chad", "prompt": "p"}])
    (tmp_path / "folder.csv").mkdir()
    written(tmp_path / "file", "")
    for place, message in (
        ("b.txt", "unknown file extension"),
        ("folder.csv", "Is a directory"),
        ("file/b.csv", "cannot write"),
    ):
        with pytest.raises(InputError, match=message):
            write_table(rows, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder.csv"]


def test_a_description_counts_by_concept() -> None:
    rows = [
        {
            "concept": "Chad",
            "prompt": "a",
            "keyword": "x",
            "baseline": "b",
            "source": "s",
            "source_tag": "local",
        },
        {"concept": "Chad", "prompt": "b", "keyword": "x", "branched_from": "Mali"},
        {"concept": "Mali", "prompt": "c", "keyword": "y"},
    ]
    numbers = {"prompts": 2, "branches": 1, "keywords": 1, "baselines": 1, "sources": 1}
    lists = {"kinds": ["given"], "source_tags": ["local"], "licences": []}
    assert describe_benchmark(table(rows)).to_dicts()[0] == {"concept": "Chad", **numbers, **lists}


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    size=st.integers(1, 40),
    seed=st.integers(0, 3),
    order=st.randoms(),
)
def test_a_sample_is_balanced_nested_and_free_of_the_order_of_rows(
    counts: list[int], size: int, seed: int, order: Any
) -> None:
    rows = [
        {"key": f"{c}-{i}", "concept": f"c{c}", "prompt": f"{c} {i}"}
        for c, n in enumerate(counts)
        for i in range(n)
    ]
    full = table(rows)
    sample = sample_benchmark(full, size, seed=seed)
    assert sample.height == min(size, full.height)
    drawn = dict(sample.group_by("concept").len().iter_rows())
    assert all(drawn.get(f"c{c}", 0) >= min(n, max(drawn.values()) - 1) for c, n in enumerate(counts)), (
        "even, but where there is no more"
    )
    assert set(sample_benchmark(full, max(1, size - 1), seed=seed)["key"]) <= set(sample["key"])
    shuffled = list(range(full.height))
    order.shuffle(shuffled)
    assert set(sample_benchmark(full[shuffled], size, seed=seed)["key"]) == set(sample["key"])


def test_a_sample_keeps_branches_with_their_roots() -> None:
    rows = [{"key": str(i), "concept": "Chad", "prompt": f"{i}"} for i in range(6)]
    branches = [(str(i), c) for i in range(6) for c in ("Mali", "Peru")]
    rows += [
        {"key": f"{i}/{c}", "root": i, "concept": c, "branched_from": "Chad", "prompt": f"{c} {i}"}
        for i, c in branches
    ]
    sample = sample_benchmark(table(rows), 10)
    assert sample.group_by("root").len()["len"].to_list() == [3, 3, 3]
    assert sample_benchmark(table(rows), 1).height == 3, "at least one family"
    with pytest.raises(InputError, match="at least 1"):
        sample_benchmark(table(rows), 0)


def rows(*value: dict[str, Any]) -> pl.DataFrame:
    return table(value)


def said(table: pl.DataFrame, check: str, level: str) -> list[tuple[str | None, int, str]]:
    """Concept, rows and sentence of what was found."""
    findings = check_benchmark(table)
    assert findings.schema == pl.Schema(dict(CHECKS))
    return findings.filter(check=check, level=level).select("concept", "rows", "finding").rows()


CLEAN = rows(
    *(
        {
            "concept": name,
            "prompt": f"{name} is",
            "keyword": name,
            "baseline": f"{name} is big.",
            "source": "s",
            "licence": "CC BY-SA 4.0",
        }
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
    assert said(broken, "prompts", "problem") == [
        (None, 1, f"1 row without a {column}; fill in the {column} or remove the row")
    ]
    assert check_benchmark(broken)["keys"][0].to_list() == ["3"]


def test_keys_that_stand_twice_and_nothing_left_to_continue() -> None:
    assert said(CLEAN.with_columns(key=pl.lit("k")), "prompts", "problem")[0][1] == 2
    complete = CLEAN.with_columns(kind=pl.lit("continuation"), baseline="prompt")
    assert said(complete, "prompts", "warning")[0][1] == 2
    assert not said(complete.with_columns(kind=pl.lit("question")), "prompts", "warning")


def test_slips_in_single_rows() -> None:
    def warned(check: str, **changed: str) -> list[tuple[str | None, int, str]]:
        return said(
            pl.concat([CLEAN, rows({"key": "3", "concept": "Mali", "prompt": "x"} | changed)]),
            check,
            "warning",
        )

    assert not warned("prompts")
    assert warned("prompts", kind="questoin")[0][1:] == (
        1,
        "1 row of another kind than those of the built-in templates (continuation, question, given)",
    )
    assert warned("prompts", concept="mali")[0][1] == 2
    assert warned("prompts", prompt="about {country}?")[0][1] == 1
    assert warned("branches", root="9")[0][1] == 1


def test_balance() -> None:
    assert "is the only concept" in said(CLEAN.head(1), "balance", "problem")[0][2]
    many = [{"concept": "Chad", "prompt": f"{i}"} for i in range(5)]
    two = [{"concept": "Mali", "prompt": "x"}, {"concept": "Mali", "prompt": "y"}]
    expected = [("Mali", 2, "Mali has 2 prompts, Chad has 5; estimates for Mali will be much less precise")]
    assert said(rows(*many, *two), "balance", "warning") == expected
    assert not said(rows(*many[:4], *two), "balance", "warning")


def test_duplicates_within_and_between_concepts() -> None:
    prompts = (("Chad", "One is"), ("Chad", "one is "), ("Mali", "Two is"), ("Chad", "Two is"))
    table = rows(*({"concept": concept, "prompt": prompt} for concept, prompt in prompts))
    assert [entries[1] for entries in said(table, "duplicates", "warning")] == [1, 2]


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
        {
            "key": "a/Mali",
            "root": "a",
            "concept": "Mali",
            "branched_from": "Chad",
            "prompt": "Mali or Chad is",
        },
    )
    message = "1 branch still naming Chad, the concept of the root; add the missing replacements"
    assert said(table, "names", "warning") == [("Mali", 1, message)]


def test_sentences_for_each_keyword() -> None:
    table = rows(
        *({"concept": "Chad", "prompt": f"{i}", "keyword": "Lake Chad"} for i in range(3)),
        {"concept": "Chad", "prompt": "x", "keyword": "Sahel", "keyword_in_prompt": False},
        {"concept": "Mali", "prompt": "y", "keyword": "Bamako"},
    )
    *keywords, without = said(table, "keywords", "note")
    assert keywords == [("Chad", 4, "Lake Chad 3, Sahel 1"), ("Mali", 1, "Bamako 1")]
    assert without[1] == 1
    assert said(table, "keywords", "warning") == [
        ("Chad", 3, "3 of 4 prompts come from the keyword 'Lake Chad' alone")
    ]


def test_baselines() -> None:
    assert said(CLEAN, "baselines", "warning") == []
    partial = CLEAN.with_columns(baseline=pl.when(pl.col("concept") == "Chad").then("baseline"))
    assert said(partial, "baselines", "warning")[0][1] == 1
    assert said(CLEAN.with_columns(baseline=pl.lit(None, pl.String)), "baselines", "note")[0][1] == 2


def test_sources_of_unknown_licence() -> None:
    unknown = CLEAN.with_columns(licence=pl.lit(None, pl.String))
    assert said(unknown, "licences", "warning")[0][1] == 2
    assert not said(unknown.with_columns(source=pl.lit(None, pl.String)), "licences", "warning"), (
        "the user's own: nothing to look up"
    )


def test_branches() -> None:
    roots = [{"key": k, "concept": "Chad", "prompt": f"Chad {k}"} for k in "abc"]
    pairs = [(k, c) for k in "abc" for c in ("Mali", "Peru")]
    entries = [
        {"key": f"{k}/{c}", "root": k, "concept": c, "branched_from": "Chad", "prompt": f"{c} {k}"}
        for k, c in pairs
    ]
    assert said(rows(*roots, *entries), "branches", "note") == [
        (None, 6, "6 prompts branched from those of another concept")
    ]
    assert said(rows(*roots, *entries[:-1]), "branches", "note")[1][2].startswith(
        "1 root with fewer branches"
    )
    assert said(rows(*roots[:2], *entries), "branches", "warning")[0][1] == 2
