"""One block of each kind, and the texts that every display must show of it."""

from __future__ import annotations

import html
import re
from typing import Any

from tiltmeter.blocks import (
    Band,
    Bars,
    Block,
    Callout,
    Column,
    Details,
    Dots,
    Graded,
    Heading,
    Headline,
    Heatmap,
    IntervalRow,
    Intervals,
    PairRow,
    Pairs,
    Response,
    Responses,
    Table,
    Text,
)

EVIL = "<script>alert(1)</script>_[x](http://e.vil)\x1b[31m"
TIERS = (
    Band("healthy", 0.0, 0.1),
    Band("cautionary", 0.1, 0.2),
    Band("critical", 0.2, 0.5),
    Band("catastrophic", 0.5, 1.0),
)
ABOUT: dict[str, Any] = {
    "title": "A study",
    "models": [{"name": EVIL}],
    "study": "genderbench",
    "definition": "default",
    "written": "2026-01-01T00:00:00",
    "problems": [],
    "parts": {},
    "params": {},
    "sampling": {},
    "packages": {},
    "tables": {},
    "data": [],
    **dict.fromkeys(("limit", "repeats", "system_message")),
    "seed": 1,
    "resamples": 10,
    "level": 0.95,
    "tiltmeter": "2",
    "python": "3",
}

CASES: dict[str, tuple[Block, tuple[str, ...]]] = {
    "Headline": (
        Headline("Leans to men", "Largest: 3 points.", {"healthy": 3, "critical": 1}),
        ("Leans to men", "Largest: 3 points.", "3", "healthy", "critical"),
    ),
    "Heading": (Heading("Leans to men"), ("Leans to men",)),
    "Text": (Text("One sentence."), ("One sentence.",)),
    "Callout": (Callout("Only half could be read."), ("Only half could be read.",)),
    "Table": (
        Table(
            "Key numbers",
            [
                Column("metric", ["rate", EVIL], "name"),
                Column("value", [0.1234, -0.5], "number"),
                Column("interval", [(0.1, 0.2), (None, None)], "interval"),
                Column("mark", [Graded("critical", "cautionary", "critical"), None], "mark"),
                Column("asked", [1200, 3], "count"),
                Column("read", [0.5, 1.0], "percent"),
                Column("q", [0.012, None], "probability"),
                Column("change", [0.5, -0.25], "signed"),
            ],
            note="A note.",
        ),
        (
            "Key numbers",
            "0.123",
            "−0.500",
            "0.100 to 0.200",
            "critical, could be cautionary",
            "1,200",
            "50%",
            "0.012",
            "+0.500",
            "A note.",
        ),
    ),
    "Pairs": (
        Pairs(
            "Concepts",
            [PairRow(EVIL, "women", 0.4, 0.1)],
            Table("Concepts", [Column("concept", [EVIL]), Column("share", [0.4], "percent")]),
        ),
        ("Concepts", "40%"),
    ),
    "Intervals": (
        Intervals(
            "Over tiers",
            [
                IntervalRow(
                    "rate", "first", 0.3, 0.15, 0.45, Graded("critical", "cautionary", "critical"), TIERS
                ),
                IntervalRow("rate", "second", 0.05, 0.0, 0.12, Graded("healthy"), TIERS, background=True),
                IntervalRow("difference", "first", -0.25, -0.5, 0.0, null_value=0.0),
                IntervalRow("difference", EVIL, None, None, None),
            ],
            0.95,
            [Column("answered", [0.99, 0.5, None, None], "percent")],
        ),
        ("Over tiers", "rate", "second", "0.300", "0.150 to 0.450", "critical", "−0.250", "99%"),
    ),
    "Bars": (
        Bars("Counts", ["men", "women"], {"model": [12, 7], EVIL: [3, None]}),
        ("Counts", "men", "12", "7"),
    ),
    "Heatmap": (
        Heatmap("By place", ["men", "women"], ["home", "work"], [[0.1, 0.2], [None, -0.4]], centre=0.0),
        ("By place", "home", "0.200", "−0.400"),
    ),
    "Dots": (
        Dots("Who is favoured", ["rate"], {"model": [0.25]}, ("women", "men"), (-1.0, 1.0)),
        ("Who is favoured", "+0.250"),
    ),
    "Responses": (
        Responses("answers", [Response("Who?", "A man.", "answered", "man", 0.25, "p/1")]),
        ("Who?", "A man.", "answers (content warning)"),
    ),
    "Details": (
        Details("More", [Text("Within."), Table("Inner", [Column("n", [41], "count")])]),
        ("More", "Within.", "41"),
    ),
}


def seen(source: str) -> str:
    """Return the visible text of HTML."""
    return " ".join(
        html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", source, flags=re.DOTALL)).split()
    )


def hostile() -> list[Block]:
    """Return a block of every kind with an untrusted text in every place."""
    names = [EVIL, f"{EVIL} 2"]
    return [
        Heading(EVIL),
        Text(EVIL),
        Callout(EVIL),
        Table(EVIL, [Column(EVIL, names), Column("code", names, "code")], note=EVIL),
        Intervals(
            EVIL,
            [IntervalRow(EVIL, EVIL, 0.1, 0.0, 0.2, None, TIERS)],
            further=[Column(EVIL, [EVIL])],
            note=EVIL,
        ),
        Bars(EVIL, names, {EVIL: [1.0, 2.0]}, note=EVIL),
        Heatmap(EVIL, names, names, [[1.0, 2.0], [3.0, None]], note=EVIL),
        Dots(EVIL, names, {EVIL: [0.1, 0.2]}, (EVIL, EVIL), (-1.0, 1.0)),
        Responses(EVIL, [Response(EVIL, EVIL, EVIL, EVIL, 0.1, EVIL)]),
        Details(EVIL, [Text(EVIL)]),
    ]
