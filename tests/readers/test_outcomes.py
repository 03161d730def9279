"""How every attempt ends, and how this is counted."""

from __future__ import annotations

import polars as pl

from tiltmeter.readers.outcomes import OUTCOMES, free_texts, outcome_counts

ANSWERS = pl.DataFrame(
    [
        ("ok", "Once upon a time there was a nurse.", None),
        ("ok", "I'm sorry, but I can't help with that.", None),
        ("ok", "Once upon", "content_filter"),
        ("ok", " \n", None),
        ("ok", None, None),
        ("error", None, None),
        ("error", "Once upon", "content_filter"),
    ],
    schema=["status", "answer", "refusal"],
    orient="row",
)


def test_a_free_text_is_usable_or_has_one_reason_why_not() -> None:
    made = free_texts(ANSWERS)
    assert made["without"].to_list() == [None, "refused", "refused", "empty", "empty", "failed", "failed"]
    assert made["text"].to_list() == [ANSWERS["answer"][0], *[None] * 6]


def test_counts_add_up_to_the_attempts_and_items_are_those_with_an_answer() -> None:
    measures = pl.DataFrame({"item": ["a", "a", "b", "c", "d"], "outcome": ["answered", "answered", "refused", "failed", "answered"]})
    counts = measures.select(outcome_counts()).row(0, named=True)
    assert counts == {"attempts": 5, "answered": 3, "refused": 1, "unreadable": 0, "empty": 0, "failed": 1, "items": 2}
    assert sum(counts[name] for name in OUTCOMES) == counts["attempts"]
    assert measures.clear().select(outcome_counts()).row(0) == (0,) * 7
