"""Usual forms of a choice and of yes or no, as models write them, each labelled as a careful reader would.

`usual_replies.jsonl` holds letters in all kinds of brackets, declarations, headings, tables, ticks, shares,
corrections, conditions and answers in other languages; the label is null where the reply chooses nothing or
depends on something. The rules were written with the set `seen` in view. The sets `first`, `second` and
`fourth` were read once before anyone looked at them:

| set | reader | replies | before: right, wrong, not read | first run: right, wrong, not read |
|---|---|---|---|---|
| first | choice | 244 | 174, 13, 57 | 221, 7, 16 |
| first | yes or no | 195 | 145, 2, 48 | 183, 0, 12 |
| second | choice | 106 | 77, 12, 17 | 97, 5, 4 |
| second | yes or no | 84 | 60, 3, 21 | 80, 0, 4 |
| third | choice | 195 | 173, 7, 15 | |
| third | yes or no | 239 | 214, 2, 23 | |
| fourth | choice | 94 | 83, 4, 7 | 88, 1, 5 |
| fourth | yes or no | 142 | 117, 3, 22 | 133, 1, 8 |

Then the replies that were read wrongly were looked at, so that the tests below say less about new replies
than the table. (One label of the second set was corrected: "B-" is an answer.) The set `third` was written by
a language model that had read docs/readers.md, but no rule; "before" are the rules that the first two sets
had led to. Four of its labels were corrected after it was read, all towards the reader ("I partially agree"
is yes, "Not necessarily" is open, a ranking of letters is open, "I can't tell" is the option that says so);
with the labels as first written it was 171, 8, 16 and 212, 3, 24. With this set in view further rules were
written, and then, by their author, the set `fourth`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars import col

from tiltmeter.readers import read_choice, read_yes_no

pytestmark = pytest.mark.verify

REPLIES = Path(__file__).parent / "usual_replies.jsonl"
WRONG = {("seen", "choice"): 0.0, ("seen", "yes_no"): 0.02}
"""Largest share of replies with a label that is not the one of the careful reader; 0 for the other sets."""
UNREAD = 0.04
"""Largest share of replies with a label that are not read."""


@cache
def readings() -> pl.DataFrame:
    """Return one row per reply: `set`, `reader`, `reply`, its `label` and the label `read`."""
    replies = pl.read_ndjson(REPLIES, infer_schema_length=None)
    choices = replies.filter(reader="choice")
    tables = [choices.with_columns(read=read_choice(choices["reply"], choices["options"])["label"])]
    for about in ("statement", "decision", "stress"):
        answers = replies.filter(reader="yes_no", about=about)
        label: pl.Series = read_yes_no(answers["reply"], about)["label"]
        tables.append(answers.with_columns(read=label))
    return pl.concat(tables)


@pytest.mark.parametrize("reader", ["choice", "yes_no"])
@pytest.mark.parametrize("name", ["seen", "first", "second", "third", "fourth"])
def test_usual_replies_are_read_and_others_are_not(name: str, reader: str) -> None:
    of_set = readings().filter(set=name, reader=reader)
    misread = of_set.filter(col.read.is_not_null() & col.read.ne_missing(col.label))
    unread = of_set.filter(col.read.is_null() & col.label.is_not_null())
    assert of_set.height > 80
    assert misread.height <= WRONG.get((name, reader), 0.0) * of_set.height, misread.select(
        "reply", "label", "read"
    ).rows()
    assert unread.height <= UNREAD * of_set.height, unread["reply"].to_list()


LETTERS = {"a": "b", "b": "c", "c": "a"}


def moved(text: str) -> str:
    """The text with the next letter for each letter in brackets."""
    for letter in LETTERS:
        text = text.replace(f"({letter})", f"(<{letter}>)")
    for letter, opposite in LETTERS.items():
        text = text.replace(f"(<{letter}>)", f"({opposite})")
    return text


def test_the_letter_itself_does_not_matter() -> None:
    """A reply is read alike if each letter in brackets is replaced by the next one."""
    of_set: list[dict[str, Any]] = (
        readings()
        .filter(reader="choice")
        .filter(~col.reply.str.contains(r"(?i)\b[abc]\b([^)]|$)|grand|determin"))
        .to_dicts()
    )
    pairs = [(row["reply"], moved(row["reply"]), LETTERS.get(row["read"] or "")) for row in of_set]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    options = pl.Series([["red", "green", "blue"]] * len(pairs))
    first = read_choice(pl.Series([pair[0] for pair in pairs]), options)["label"]
    second = read_choice(pl.Series([pair[1] for pair in pairs]), options)["label"]
    assert len(pairs) > 40
    assert [LETTERS.get(label or "") for label in first] == second.to_list()
