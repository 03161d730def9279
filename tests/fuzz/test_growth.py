"""Whatever a text repeats without end, the time its readers take grows with its length, not with the square of it."""

from __future__ import annotations

import string
from itertools import islice, product

import polars as pl
import pytest

from support.fuzzing import growth
from tiltmeter.associations.stage_tables import STORIES
from tiltmeter.associations.words import extract

pytestmark = pytest.mark.verify

PARTS = 4
"""Of the patterns, so that no single test takes long."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", growth.READERS)
def test_time_grows_with_the_length_of_a_text(name: str, part: int) -> None:
    assert list(growth.quadratic(growth.READERS[name], dict(list(growth.PATTERNS.items())[part::PARTS]))) == []


def test_a_text_of_many_surnames() -> None:
    letters = string.ascii_lowercase
    people = [f"Emily {''.join(name).capitalize()} is the one. " for name in islice(product(letters, repeat=4), 2_000)]

    def read(text: str) -> object:
        story = pl.DataFrame(
            [{"attempt": "0", "character": 0, "name": "Emily", "text": "".join(people)[: len(text)]}], schema=dict(STORIES)
        )
        return extract(story, story.select("attempt", prompt=pl.lit("")))

    assert list(growth.quadratic(read, {"surnames": "a"})) == []


def test_what_grows_with_the_square_is_found() -> None:
    def squared(text: str) -> int:
        return sum(1 for _ in range(len(text)) for _ in range(len(text) // 3)) if "a" in text else sum(1 for _ in text * 100)

    assert [one.pattern for one in growth.quadratic(squared, {"a": "a", "b": "b"})] == ["a"]
