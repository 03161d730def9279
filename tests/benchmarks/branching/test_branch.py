"""Prompts about a root again as prompts about its targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.benchmarks.branching import branch, read_table
from tiltmeter.errors import InputError

_TABLE = {
    "Imaginaria": {
        "Brazil": {"Imaginaria": "Brazil", "Imaginarian": "Brazilian"},
        "the EU": {"Imaginaria": "the EU", "Imaginarian": "European"},
    },
}


def _benchmark(*rows: tuple[str, str, str | None, str, str | None]) -> pl.DataFrame:
    """Rows of concept, keyword, source tag, prompt, baseline."""
    made = [
        {
            **dict.fromkeys(BENCHMARK),
            "key": f"k{number}",
            "root": f"k{number}",
            "domain": "countries",
            "kind": "question",
            **dict(zip(("concept", "keyword", "source_tag", "prompt", "baseline"), row, strict=True)),
            "keyword_in_prompt": True,
            "source": "article.txt",
            "position": number,
            "licence": "own",
        }
        for number, row in enumerate(rows)
    ]
    return pl.DataFrame(made, schema=dict(BENCHMARK))


_ROOTS = _benchmark(
    ("Imaginaria", "Imaginarian", "local", "What does an Imaginarian eat?", "An Imaginarian eats lentils."),
    ("Imaginaria", "IMAGINARIA", "written", "How large is Imaginaria?", None),
    ("Imaginaria", "sea", "local", "How deep is the sea?", "Imaginaria lies by it."),
    ("Peru", "Peru", None, "Is Peru far from Imaginaria?", None),
)


def test_a_branch_says_where_it_comes_from_and_can_be_paired_with_its_root() -> None:
    made, report = branch(_ROOTS, _TABLE, pairs=[("Imaginaria", "the EU")])
    assert made.schema == dict(BENCHMARK)
    assert made.head(4).equals(_ROOTS)
    first = made.row(4, named=True)
    assert first == {
        "key": "k0/the EU",
        "root": "k0",
        "domain": "countries",
        "concept": "the EU",
        "keyword": "European",
        "source_tag": "branch of Imaginaria: local",
        "kind": "question",
        "prompt": "What does a European eat?",
        "baseline": "An Imaginarian eats lentils.",
        "keyword_in_prompt": True,
        "branched_from": "Imaginaria",
        "source": "article.txt",
        "position": 0,
        "licence": "own",
    }
    assert made["prompt"].to_list()[5:] == ["How large is the EU?", "How deep is the sea?"]
    assert made["keyword"].to_list()[5:] == ["THE EU", "sea"]
    assert report.rows() == [("Imaginaria", "the EU", 3, 1, 0)]


def test_all_pairs_each_target_once_and_baselines_too_on_request() -> None:
    made, report = branch(_ROOTS, _TABLE, counterfactual_baseline=True)
    assert report.select("root", "target", "rows").rows() == [("Imaginaria", "Brazil", 3), ("Imaginaria", "the EU", 3)]
    assert made["key"].is_unique().all()
    brazil = made.filter(pl.col("concept") == "Brazil")
    assert brazil["baseline"].to_list() == ["A Brazilian eats lentils.", None, "Brazil lies by it."]
    assert made.group_by("root").len().sort("root").rows() == [("k0", 3), ("k1", 3), ("k2", 3), ("k3", 1)]


def test_sources_limit_what_is_branched_and_drop_nothing() -> None:
    made, report = branch(_ROOTS, _TABLE, pairs=[("Imaginaria", "Brazil")], sources=["written"])
    assert made.head(4).equals(_ROOTS)
    assert made["key"].to_list()[4:] == ["k1/Brazil"]
    assert report["rows"].to_list() == [1]
    tag = branch(_ROOTS, {"Peru": {"Chile": {"Peru": "Chile"}}}).benchmark["source_tag"][-1]
    assert tag == "branch of Peru"


def test_what_still_names_the_root_is_counted() -> None:
    report = branch(_ROOTS, {"Imaginaria": {"Brazil": {"Imaginarian": "Brazilian"}}}).report
    assert report.rows() == [("Imaginaria", "Brazil", 3, 2, 1)]


def test_both_directions_take_the_table_the_other_way_round_or_its_own() -> None:
    two = _benchmark(("male", "he", "local", "He is a man.", None), ("female", "she", "local", "She is a woman; he is not.", None))
    table: dict[str, Any] = {"male": {"female": {"he": "she", "man": "woman"}}}
    made, report = branch(two, table, direction="both")
    assert made.select("key", "concept", "prompt").rows()[2:] == [
        ("k0/female", "female", "She is a woman."),
        ("k1/male", "male", "He is a man; he is not."),
    ]
    assert report["root"].to_list() == ["male", "female"]
    table["female"] = {"male": {"she": "he", "he": "she", "woman": "man"}}
    assert branch(two, table, direction="both").benchmark["prompt"].to_list()[2:] == ["She is a woman.", "He is a man; she is not."]
    assert branch(two, table, pairs=[("male", "female")]).benchmark.height == 3
    ambiguous = {"male": {"female": {"he": "she", "man": "She"}}}
    with pytest.raises(InputError, match=r"male\.female: 'he' and 'man' both become 'She'"):
        branch(two, ambiguous, direction="both")


def test_branches_are_not_branched_again() -> None:
    made = branch(_ROOTS, _TABLE).benchmark
    again = branch(made, {"Brazil": {"Chile": {"Brazil": "Chile"}}, "Imaginaria": {"Chile": {"Imaginaria": "Chile"}}})
    assert again.report["root"].to_list() == ["Imaginaria"]
    with pytest.raises(InputError, match="has the key 'k2/the EU' already"):
        branch(made, _TABLE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [("Imaginaria", "Brasil")]}, "no target 'Brasil' there; did you mean Brazil"),
        ({"pairs": [("Peru", "Brazil")]}, "has no root 'Peru'"),
        ({"pairs": ["Imaginaria"]}, "is not a root and a target"),
        ({"pairs": []}, "nothing can be branched"),
        ({"sources": ["locale"]}, "source tag 'locale': did you mean local"),
        ({"direction": "back"}, "unknown direction 'back'"),
        ({"sources": []}, "nothing can be branched"),
    ],
)
def test_what_cannot_be_branched_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        branch(_ROOTS, _TABLE, **options)


def test_roots_without_rows_are_an_error_only_where_asked_for() -> None:
    table = {**_TABLE, "Chile": {"Brazil": {"Chile": "Brazil"}}}
    assert branch(_ROOTS, table).report.height == 2
    with pytest.raises(InputError, match="no prompt to be branched is about 'Chile'"):
        branch(_ROOTS, table, pairs=[("Chile", "Brazil")])
    with pytest.raises(InputError, match="nothing can be branched: no prompt is about 'Chile'"):
        branch(_ROOTS, {"Chile": table["Chile"]})


def test_a_table_is_read_from_yaml_and_json(tmp_path: Path) -> None:
    yaml = tmp_path / "table.yaml"
    yaml.write_text("Imaginaria:  # ours\n  Brazil: {Imaginaria: Brazil, ' Port   Vera ': Rio}\n", encoding="utf-8")
    wanted = {"Imaginaria": {"Brazil": {"Imaginaria": "Brazil", "Port Vera": "Rio"}}}
    assert read_table(yaml) == wanted
    other = tmp_path / "table.json"
    other.write_text("\t" + json.dumps(wanted), encoding="utf-8-sig")
    assert read_table(str(other)) == wanted
    assert read_table(wanted) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping with at least one entry; write"),
        ("[1]", "expected a mapping"),
        ("A: B", "table.yaml: A: expected a mapping"),
        ("A: {B: {}}", r"A\.B: expected a mapping"),
        ("A: {A: {x: y}}", "cannot be branched to itself"),
        ("A: {B: {no: yes}}", r"A\.B: False is not a text; put it in quotes"),
        ("A: {B: {x: 3}}", r"A\.B\.x: 3 is not a text; put it in quotes"),
        ("A: {B: {x: [y]}}", r"A\.B\.x: \['y'\] is not a text"),
        ("A: {B: {x: ' '}}", r"A\.B\.x: a text is empty"),
        ("A: {B: {'--': y}}", "holds no letter or digit"),
        ("A: {B: {x: y, 'x ': z}}", "'x' stands twice"),
        ("A: {B: {x: y}, B: {x: z}}", r"line 1, column 16: not valid YAML .the key 'B' stands twice in one mapping"),
        ("A: {B: {x: y", "not valid YAML"),
    ],
)
def test_a_table_that_cannot_be_used_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_unreadable_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_table(tmp_path / "none.yaml")
    broken = tmp_path / "broken.json"
    broken.write_text('{"A": {"B": {"x": "y", "x": "z"}}}', encoding="utf-8")
    with pytest.raises(InputError, match="'x' stands twice in one object"):
        read_table(broken)
    broken.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_table(broken)
