"""What the gate writes: lines, JSON, JUnit XML, Markdown. Untrusted names stay text in all of them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from lxml import etree
from markdown_it import MarkdownIt

from support.judged_runs import altered
from support.property_tests import PER_TEST_FIXTURES
from tiltmeter.errors import InputError
from tiltmeter.gating import Check, Limit, Rules, Verdict, append_summary, gate, print_verdict, write_junit
from tiltmeter.runs import Run

pytestmark = pytest.mark.xdist_group("gating")  # one process makes the runs of the fixtures

SCHEMA = etree.XMLSchema(etree.parse(str(Path(__file__).with_name("junit.xsd"))))
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]>&amp;--><!--",
    "a | b \\| c `| d` \\",
    "**bold** [click](http://example.org) ![x](y) # no",
    "\x1b[31mred\x07\r\n\u2028\ufffe\uffff\x00\x85",
    "line\n\n# heading\n|---|\n",
    "www.example.org and http://example.org and :smile: and ~~gone~~",
    "=cmd|' /C calc'!A0",
    "x" * 1_000_000,
)


def verdict_of(
    *names: str, status: str = "failed", problems: tuple[str, ...] = (), barred: int = 0
) -> Verdict:
    checks = [
        Check(
            rule=f"max {name}=0",
            status=status,
            reason=f"0.1 is more than 0: {name}",
            study=f"s/{name}",
            part=name,
            model=name,
            metric=name,
            group=name,
            concept=name,
        )
        for name in names
    ]
    return Verdict(
        "runs/r",
        {"study": names[0] if names else "s", "written": "2026-01-31T10:00:00+02:00"},
        checks,
        problems,
        (),
        barred,
    )


def junit(verdict: Verdict, path: Path) -> Any:
    """The suite of the file, which fits the schema."""
    write_junit(verdict, path)
    document = etree.parse(str(path), etree.XMLParser(huge_tree=True))
    SCHEMA.assertValid(document)
    (suite,) = document.getroot()
    return suite


def test_junit_has_one_case_for_each_rule_and_number(two_models: Run, tmp_path: Path) -> None:
    verdict = gate(two_models, Rules("cautionary", limits=(Limit("max", "gest/stereotype_rate", 0.1),)))
    suite = junit(verdict, tmp_path / "junit.xml")
    cases = suite.findall("testcase")[1:]
    assert len(cases) == len(verdict.checks) == 8, "one for each rule and number"
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 8
    failed = {
        case.get("name")
        for case in cases
        if case.find("failure") is not None and case.get("classname") == "sim/biased.gest"
    }
    assert failed == {
        "gest/stereotype_rate [fail-on cautionary]",
        "gest/stereotype_rate [max gest/stereotype_rate=0.1]",
    }
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == len(verdict.failures)
    assert int(suite.get("tests")) == 9
    assert "tiltmeter show" in suite.find("testcase/failure").text
    before = (tmp_path / "junit.xml").read_bytes()
    write_junit(verdict, tmp_path / "junit.xml")
    assert (tmp_path / "junit.xml").read_bytes() == before


def test_junit_of_a_run_that_cannot_be_judged_has_errors(tmp_path: Path) -> None:
    suite = junit(
        verdict_of("a", status="skipped", problems=("no answers", "nothing"), barred=4),
        tmp_path / "junit.xml",
    )
    assert (suite.get("errors"), suite.get("skipped"), suite.get("failures")) == ("2", "1", "1")
    assert [problem.get("message") for problem in suite.findall("testcase/error")] == [
        "no answers",
        "nothing",
    ]
    assert suite.get("timestamp") == "2026-01-31T08:00:00"


def test_hostile_names_are_text_in_junit(tmp_path: Path) -> None:
    suite = junit(verdict_of(*HOSTILE), tmp_path / "junit.xml")
    cases = suite.findall("testcase")[1:]
    assert len(cases) == len(HOSTILE)
    assert HOSTILE[0] in cases[0].get("name")
    assert {element.tag for element in suite.iter()} == {
        "testsuite",
        "properties",
        "testcase",
        "failure",
        "system-out",
        "system-err",
    }


@settings(suppress_health_check=PER_TEST_FIXTURES, max_examples=50)
@given(name=st.text(st.characters(), min_size=1))
def test_any_text_makes_legal_xml(name: str, tmp_path: Path) -> None:
    assert len(junit(verdict_of(name), tmp_path / "junit.xml").findall("testcase")) == 2


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text_in_the_summary(name: str, tmp_path: Path) -> None:
    check_summary(name, tmp_path / "summary.md")


@settings(suppress_health_check=PER_TEST_FIXTURES, max_examples=100)
@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_text_in_the_summary(name: str, tmp_path: Path) -> None:
    (tmp_path / "summary.md").unlink(missing_ok=True)
    check_summary(name, tmp_path / "summary.md")


def check_summary(name: str, path: Path) -> None:
    append_summary(verdict_of(name), path)
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(path.read_text("utf-8"))
    cells = sum(token.type == "td_open" for token in tokens)
    assert cells == 5, "one row, however many pipes"
    assert sum(token.type in ("heading_open", "paragraph_open") for token in tokens) == 2
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special"}


def test_a_summary_is_appended_to_its_file_and_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "new" / "summary.md"
    append_summary(verdict_of("a"), path)
    first = path.read_text()
    append_summary(
        verdict_of(*(f"{i}{'&' * 5_000}" for i in range(1_000)), problems=("&" * 5_000,) * 1_000, barred=3),
        path,
    )
    assert path.read_text().startswith(first)
    assert "800 more checks are not shown" in path.read_text()
    assert path.stat().st_size < 2**20, "GitHub refuses more"
    with pytest.raises(InputError, match="cannot write"):
        append_summary(verdict_of("a"), tmp_path)


def test_each_check_is_one_line_and_terminal_safe(capsys: pytest.CaptureFixture[str]) -> None:
    print_verdict(verdict_of(*HOSTILE, problems=HOSTILE, barred=3))
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 2 * len(HOSTILE) + 2 + printed.count("\u2028")
    assert not set(printed) & {chr(code) for code in (*range(10), *range(11, 32), *range(0x7F, 0xA0))}


def test_json_has_every_check_and_is_terminal_safe(biased: Run, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = gate(biased, Rules())
    print_verdict(verdict, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["passed"], document["exit_code"], len(document["checks"])) == (False, 1, 1)
    assert document["checks"][0]["estimate"] == biased.finding("stereotype_rate").estimate
    print_verdict(verdict_of(*HOSTILE, "\x7f\x9b"), as_json=True)
    printed = capsys.readouterr().out
    assert json.loads(printed)["checks"][-1]["model"] == "\x7f\x9b"
    assert all(letter == "\n" or " " <= letter <= "~" for letter in printed)


@pytest.mark.verify
def test_the_command_of_a_failed_check_opens_its_number(associations: Run, tmp_path: Path) -> None:
    """The command selects exactly the number that failed, also if its name has characters of the shell."""
    renamed = altered(
        associations,
        tmp_path / "run",
        lambda findings: findings.with_columns(
            concept=pl.when(pl.col("concept").is_not_null()).then(pl.col("concept") + " $(id); '\"")
        ),
    )
    verdict = gate(renamed, Rules(None, limits=(Limit("max", "association", 0),)))
    for check in verdict.checks:
        words = shlex.split(check.opened_by(verdict.run))
        assert words[:3] == ["tiltmeter", "show", str(renamed.path)]
        chosen = dict(zip((word.removeprefix("--") for word in words[3::2]), words[4::2], strict=True))
        metric = chosen.pop("metric")
        assert renamed.finding(metric, **chosen).estimate == check.estimate
