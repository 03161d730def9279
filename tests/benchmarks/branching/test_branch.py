"""Prompts about a root again as prompts about its targets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from support.benchmark_rows import benchmark
from tiltmeter.benchmarks._branching import branch
from tiltmeter.benchmarks._builder import read_table
from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.errors import InputError

_TARGETS = {
    "Brazil": {"Imaginaria": "Brazil", "Imaginarian": "Brazilian"},
    "the EU": {"Imaginaria": "the EU", "Imaginarian": "European"},
}
_TABLE = {"Imaginaria": _TARGETS}
_SAME = {
    "domain": "countries",
    "kind": "question",
    "keyword_in_prompt": True,
    "source": "article.txt",
    "licence": "own",
}


def _benchmark(*rows: tuple[str, str, str | None, str, str | None]) -> pl.DataFrame:
    """Rows of concept, keyword, source tag, prompt, baseline."""
    given = [
        dict(zip(("concept", "keyword", "source_tag", "prompt", "baseline"), row, strict=True))
        for row in rows
    ]
    return benchmark(
        [{"key": f"k{number}", "position": number, **_SAME, **row} for number, row in enumerate(given)]
    )


_ROOTS = _benchmark(
    ("Imaginaria", "Imaginarian", "local", "What does an Imaginarian eat?", "An Imaginarian eats lentils."),
    ("Imaginaria", "IMAGINARIA", "written", "How large is Imaginaria?", None),
    ("Imaginaria", "sea", "local", "How deep is the sea?", "Imaginaria lies by it."),
    ("Peru", "Peru", None, "Is Peru far from Imaginaria?", None),
)


def test_a_branch_says_where_it_comes_from_and_can_be_paired_with_its_root() -> None:
    by_name, report = branch(_ROOTS, {"Imaginaria": {"the EU": _TARGETS["the EU"]}})
    assert by_name.schema == dict(BENCHMARK)
    assert by_name.head(4).equals(_ROOTS)
    about = {
        "key": "k0/the EU",
        "root": "k0",
        "concept": "the EU",
        "keyword": "European",
        "branched_from": "Imaginaria",
        "position": 0,
    }
    texts = {"prompt": "What does a European eat?", "baseline": "An Imaginarian eats lentils."}
    assert by_name.row(4, named=True) == {
        **_SAME,
        **about,
        **texts,
        "source_tag": "branch of Imaginaria: local",
    }
    assert by_name.select("keyword", "prompt").rows()[5:] == [
        ("THE EU", "How large is the EU?"),
        ("sea", "How deep is the sea?"),
    ]
    assert report.rows() == [("Imaginaria", "the EU", 3, 1, 0)]


def test_all_pairs_each_target_once_and_baselines_too_on_request() -> None:
    branched, report = branch(_ROOTS, _TABLE, counterfactual_baseline=True)
    assert report.select("root", "target", "rows").rows() == [
        ("Imaginaria", "Brazil", 3),
        ("Imaginaria", "the EU", 3),
    ]
    assert branched["key"].is_unique().all()
    brazil = branched.filter(pl.col("concept") == "Brazil")
    assert brazil["baseline"].to_list() == ["A Brazilian eats lentils.", None, "Brazil lies by it."]
    assert branched.group_by("root").len().sort("root").rows() == [("k0", 3), ("k1", 3), ("k2", 3), ("k3", 1)]


def test_a_root_without_a_source_tag_and_what_still_names_the_root() -> None:
    assert (
        branch(_ROOTS, {"Peru": {"Chile": {"Peru": "Chile"}}}).benchmark["source_tag"][-1] == "branch of Peru"
    )
    report = branch(_ROOTS, {"Imaginaria": {"Brazil": {"Imaginarian": "Brazilian"}}}).report
    assert report.rows() == [("Imaginaria", "Brazil", 3, 2, 1)]


def test_branches_are_not_branched_again() -> None:
    branched = branch(_ROOTS, _TABLE).benchmark
    again = branch(
        branched, {"Brazil": {"Chile": {"Brazil": "Chile"}}, "Imaginaria": {"Chile": {"Imaginaria": "Chile"}}}
    )
    assert again.report["root"].to_list() == ["Imaginaria"]
    with pytest.raises(InputError, match="already has the key 'k2/the EU'"):
        branch(branched, _TABLE)


def test_roots_without_rows_are_an_error_only_where_there_is_no_other() -> None:
    table = {**_TABLE, "Chile": {"Brazil": {"Chile": "Brazil"}}}
    assert branch(_ROOTS, table).report.height == 2
    with pytest.raises(InputError, match="nothing can be branched: no prompt is about 'Chile'"):
        branch(_ROOTS, {"Chile": table["Chile"]})
    with pytest.raises(InputError, match="nothing can be branched"):
        branch(_ROOTS, {})


def test_a_table_is_read_from_yaml_and_json(tmp_path: Path) -> None:
    yaml, json_table = tmp_path / "table.yaml", tmp_path / "table.json"
    yaml.write_text(
        "Imaginaria:  # ours\n  Brazil: {Imaginaria: Brazil, ' Port Vera ': Rio}\n", encoding="utf-8"
    )
    wanted = {"Imaginaria": {"Brazil": {"Imaginaria": "Brazil", "Port Vera": "Rio"}}}
    assert read_table(yaml) == wanted
    json_table.write_text("\t" + json.dumps(wanted), encoding="utf-8-sig")
    assert read_table(json_table) == wanted


_QUOTES = "(put numbers, dates and words such as yes and no in quotes)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping {root: {target: {old: new}}}"),
        ("[1]", "expected a mapping"),
        ("A: B", "table.yaml: A must be a mapping, found 'B'"),
        ("A: {B: {}}", "A.B is empty"),
        ("A: {A: {x: y}}", "cannot be branched to itself"),
        ("A: {B: {no: yes}}", f"A.B: a key must be a text of one line {_QUOTES}, found False"),
        ("A: {B: {x: 3}}", f"A.B.x must be a text {_QUOTES}, found 3"),
        ("A: {B: {x: [y]}}", "A.B.x must be a text"),
        ("A: {B: {x: ' '}}", "A.B.x is an empty text"),
        ("A: {B: {x: y, 'x ': z}}", "the key 'x' occurs twice"),
        (
            "A: {B: {x: y}, B: {x: z}}",
            "line 1, column 16: not valid YAML (the key 'B' occurs twice in one mapping",
        ),
        ("A: {B: {x: y", "not valid YAML"),
        (None, "No such file"),
    ],
)
def test_a_table_that_cannot_be_used_says_where(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "table.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b'{"A": {"B":\n {"x": "y"', "line 2 is not valid JSON"), (b"\xff\xfe\xff", "not UTF-8")],
)
def test_unreadable_tables(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "broken.json").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "broken.json")
