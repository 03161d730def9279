"""The time of readers grows with the length of a text, not with its square, whatever the text repeats."""

from __future__ import annotations

import string
from itertools import islice, product

import polars as pl
import pytest

from support.fuzzing import growth
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._tables import STORIES

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("name", growth.READERS)
def test_time_grows_with_the_length_of_a_text(name: str) -> None:
    assert list(growth.quadratic(growth.READERS[name])) == []


def test_time_grows_with_the_number_of_surnames() -> None:
    letters = string.ascii_lowercase
    people = [
        f"Emily {''.join(name).capitalize()} is the one. "
        for name in islice(product(letters, repeat=4), 2_000)
    ]

    def read(text: str) -> object:
        story = pl.DataFrame(
            [{"attempt": "0", "character": 0, "name": "Emily", "text": "".join(people)[: len(text)]}],
            schema=dict(STORIES),
        )
        return extract(story, story.select("attempt", prompt=pl.lit("")))

    assert list(growth.quadratic(read, {"surnames": "a"})) == []


def _work(text: str, linear: int, constant: int) -> int:
    """Steps of a reader whose work grows with the square of the length of a text of "a".

    Of work in proportion to the length, there is `linear` times as much for a text of 6,000 bytes.
    """
    in_proportion = len(text) * 80
    with_the_square = len(text) ** 2 // 75 if "a" in text else 0
    return constant + with_the_square + linear * in_proportion


@pytest.mark.parametrize(
    ("linear", "constant"),
    [(0, 0), (1, 0), (0, 400_000)],
    ids=["square alone", "half of the work for 6,000 bytes", "a constant part as well"],
)
def test_work_that_grows_with_the_square_is_found(linear: int, constant: int) -> None:
    """Steps are counted, because the time of work close to the limits is not exact on a busy machine."""

    def time_of(_: object, text: str) -> float:
        return _work(text, linear, constant) * 3e-8

    assert [slow.pattern for slow in growth.quadratic(len, {"a": "a", "b": "b"}, time_of)] == ["a"]


def test_time_that_grows_with_the_square_is_found() -> None:
    def read(text: str) -> int:
        return sum(1 for _ in range(_work(text, linear=0, constant=0)))

    assert [slow.pattern for slow in growth.quadratic(read, {"a": "a", "b": "b"})] == ["a"]
