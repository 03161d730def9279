"""Where sentences begin and end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter.benchmarks.sentences import split_sentences
from tiltmeter.study import NotRun

CASES: Sequence[tuple[str, Sequence[str]]] = [
    ("Dr. Ames met Mrs. Hale. They spoke.", ["Dr. Ames met Mrs. Hale.", "They spoke."]),
    ("It was by J. R. R. Marsh. He died in 1950.", ["It was by J. R. R. Marsh.", "He died in 1950."]),
    ("See vol. 3, p. 12, and St. Mary's, e.g. the nave. It is old.", ["See vol. 3, p. 12, and St. Mary's, e.g. the nave.", "It is old."]),
    ("The sect (see ch. 4. It is long.) grew. Then it split.", ["The sect (see ch. 4. It is long.) grew.", "Then it split."]),
    ('He said "Go away!" and left. She stayed.', ['He said "Go away!" and left.', "She stayed."]),
    ("She asked: \u201cWhy?\u201d Nobody knew.", ["She asked: \u201cWhy?\u201d", "Nobody knew."]),
    ("One wing led; Another followed; Both lost.", ["One wing led; Another followed; Both lost."]),
    ("It rose by 3.5 percent to 1,200.50 in 2001. Then it fell.", ["It rose by 3.5 percent to 1,200.50 in 2001.", "Then it fell."]),
    ("It ended in the Soviet Union.The term lived on.", ["It ended in the Soviet Union.", "The term lived on."]),
    ('It is "rebirth".In other cases it is not.', ['It is "rebirth".', "In other cases it is not."]),
    ("Goals:\n- to teach\n- to heal the sick. And more\n", ["Goals:", "to teach", "to heal the sick.", "And more"]),
    ("\u2022 first thing\n\u2022 second thing", ["first thing", "second thing"]),
    ("1. First point\n2. Second point that is\n   wrapped", ["First point", "Second point that is wrapped"]),
    (
        "The text was wrapped and\nwent on \u2013\n- as said \u2013 here.",
        ["The text was wrapped and went on \u2013 - as said \u2013 here."],
    ),
    ("A heading\n\nA first  sentence.\tA second.", ["A heading", "A first sentence.", "A second."]),
    ("", []),
    (" \n\n\t\n", []),
    ("no end", ["no end"]),
    ("\u200b", ["\u200b"]),
    ("( " * 50_000, [("( " * 50_000).strip()]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:20] for text, _ in CASES])
def test_split(text: str, expected: Sequence[str]) -> None:
    assert split_sentences(text) == list(expected)


@given(st.text(alphabet=st.sampled_from("abcXYZ .!?;:,()[]\"'\u201c\u201d-\u2022123\n\r\t\u2014é漢"), max_size=200))
def test_nothing_is_lost_or_made_up(text: str) -> None:
    found = split_sentences(text)
    assert all(one and one == " ".join(one.split()) for one in found)
    # Only the bullets and numbers of lists go.
    gone = "".join(text.split())
    rest = iter(gone)
    assert all(character in rest for character in "".join("".join(found).split()))
    letters = [character for character in gone if character.isalpha()]
    kept = [character for character in "".join(found) if character.isalpha()]
    assert len(kept) >= len(letters) - gone.count(")")


def test_a_long_text_takes_time_in_proportion() -> None:
    import time

    def seconds(copies: int) -> float:
        text = 'The party (founded in 1900) said "We are one." It grew; it fell. ' * copies
        start = time.process_time()
        assert len(split_sentences(text)) >= copies
        return time.process_time() - start

    seconds(50)
    assert seconds(4000) < 40 * seconds(400) + 1


def test_without_syntok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "syntok", None)
    with pytest.raises(NotRun, match=r'pip install "tiltmeter\[benchmarks\]"'):
        split_sentences("One. Two.")
