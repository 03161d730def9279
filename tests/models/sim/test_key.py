"""The table of planted odds: what it takes, what it refuses, what it keeps."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter.models.sim._draws import Draws
from tiltmeter.models.sim._key import Key, digest

Odds = Sequence[float | None]


def table(*rows: tuple[str, Sequence[str | None], Odds]) -> pl.DataFrame:
    prompts, outcomes, odds = zip(*rows, strict=True)
    return pl.DataFrame(
        {"prompt": prompts, "outcomes": outcomes, "odds": odds},
        schema={"prompt": pl.String, "outcomes": pl.List(pl.String), "odds": pl.List(pl.Float64)},
    )


@given(
    st.lists(
        st.lists(st.tuples(st.text(min_size=1, max_size=4), st.floats(0.01, 1)), min_size=1, max_size=6, unique_by=lambda one: one[0]),
        min_size=1,
        max_size=8,
    ),
    st.floats(0, 1, exclude_max=True),
)
def test_the_draw_is_the_inverse_of_the_cumulative_odds(rows: list[list[tuple[str, float]]], unit: float) -> None:
    scaled = [[(word, weight / sum(w for _, w in row)) for word, weight in row] for row in rows]
    key = Key()
    key.add(table(*((f"prompt {i}", [w for w, _ in row], [o for _, o in row]) for i, row in enumerate(scaled))))
    for i, row in enumerate(scaled):
        found = key.find(digest(f"prompt {i}"))
        assert found is not None
        assert found.outcomes == [word for word, _ in row]
        place = found.outcomes.index(found.draw(unit))
        below = sum(odds for _, odds in row[:place])
        assert below - 1e-9 <= unit <= below + row[place][1] + 1e-9


def test_a_second_table_adds_prompts_and_changes_none() -> None:
    key = Key()
    key.add(table(("one", ["a", "b"], [1.0, 0.0])))
    key.add(table(("two", ["c", "a"], [0.0, 1.0]), ("one", ["b"], [1.0]), ("one", ["c"], [1.0])))
    key.add(table(("three", ["a"], [1.0])).clear())
    assert len(key) == 2
    assert [found.draw(0.5) for prompt in ("one", "two") if (found := key.find(digest(prompt)))] == ["a", "a"]
    assert key.find(digest("three")) is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("p", ["a", "b"], [0.5, 0.4]), "do not sum to 1"),
        (("p", ["a", "b"], [1.5, -0.5]), "negative"),
        (("p", ["a", "b"], [1.0]), "not as many odds"),
        (("p", [], []), "not as many odds as outcomes, or none"),
        (("p", ["a", None], [0.5, 0.5]), "null"),
        (("p", ["a", "b"], [0.5, None]), "null"),
    ],
)
def test_a_broken_row_is_refused_with_its_prompt(row: tuple[str, Sequence[str | None], Odds], message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.*'p'"):
        Key().add(table(("fine", ["a"], [1.0]), row))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="odds is missing"):
        Key().add(table(("p", ["a"], [1.0])).drop("odds"))


def test_draws_repeat_and_are_uniform() -> None:
    draws = Draws(b"x")
    units = [draws.unit() for _ in range(20_000)]
    again = Draws(b"x")
    assert units[:50] == [again.unit() for _ in range(50)]
    assert abs(sum(units) / 20_000 - 0.5) < 5 * (1 / 12 / 20_000) ** 0.5
    counts = [sum(draws.below(6) == face for _ in range(6_000)) for face in range(6)]
    assert sum((count - 1_000) ** 2 / 1_000 for count in counts) < 30
    assert sorted(draws.shuffled("abcdef")) == list("abcdef")
    assert {tuple(draws.shuffled("abc")) for _ in range(200)} == {tuple(x) for x in ("abc", "acb", "bac", "bca", "cab", "cba")}
