"""The search for the words to replace, and what a judge proposes instead of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from support.minilm import minilm_folder
from tiltmeter.benchmarks._branching import find_descriptors, propose_replacements
from tiltmeter.benchmarks._judge_replies import Unfinished
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Message


class Says:
    """A judge that answers by a function of the last message and its turn; keeps what it was asked."""

    name = "test/judge"

    def __init__(self, answer: Callable[[str, int], str | None], status: str = "ok") -> None:
        self._answer, self._status = answer, status
        self.asked: list[tuple[Message, ...]] = []
        self.calls = 0

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: object = None,
    ) -> pl.DataFrame:
        self.asked += conversations
        self.calls += 1
        assert sampling == {"temperature": 0.0}
        answers = [
            self._answer(conversation[-1].content, len(conversation)) if self._status == "ok" else None
            for conversation in conversations
        ]
        error = "server: down" if self._status == "failed" else None
        rows = [
            (f"{self.calls}-{number}", self._status, answer, error) for number, answer in enumerate(answers)
        ]
        return pl.DataFrame(
            rows, schema=dict.fromkeys(("key", "status", "answer", "error"), pl.String), orient="row"
        )


class Numbered:
    """An encoder that knows how similar each word is to the concept."""

    name = "test/encoder"

    def __init__(self, similarity: Mapping[str, float]) -> None:
        self._similarity = similarity
        self.passes: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.passes.append(list(texts))
        cosines = np.array([self._similarity.get(text, 0.0) for text in texts])
        cosines[0] = 1.0
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)


def _shown(prompt: str) -> list[str]:
    """The JSON list in a question."""
    document: list[str] = json.loads(next(line for line in prompt.splitlines() if line.startswith("[")))
    return document


def test_words_are_counted_once_in_their_usual_spelling_and_kept_from_the_threshold() -> None:
    second = "tango. ARGENTINA and Argentina, I don't know 12 e\u0301te\u0301"
    texts = pl.Series(["Tango's from Argentina; the tango, Buenos-Aires", None, second])
    encoder = Numbered({"Argentina": 0.75, "tango": 0.5, "know": 0.25, "the": 0.9})
    judge = Says(lambda *_: "")
    assert find_descriptors(texts, "Argentina", encoder, judge, threshold=0.5) == ["Argentina", "tango"]
    every = find_descriptors(
        texts, "Argentina", Numbered({"Argentina": 0.75, "tango": 0.5}), judge, threshold=-1
    )
    assert set(every) == {"Argentina", "tango", "Buenos-Aires", "know", "été"}
    assert judge.asked == []
    assert len(encoder.passes) == 1


@pytest.mark.verify
@settings(max_examples=12)
@given(st.integers(3, 120), st.data())
def test_the_search_ends_between_the_last_word_that_belongs_and_the_next(
    count: int, data: st.DataObject
) -> None:
    # Words that belong stand first; the judge knows them. What must hold: no question went unheeded.
    belonging = data.draw(st.integers(0, count))
    names = ["w" + "".join(chr(97 + int(digit)) for digit in f"{number:03}") for number in range(count)]
    associated = set(names[:belonging])
    encoder = Numbered({name: 0.9 - 0.005 * number for number, name in enumerate(names)})
    judge = Says(lambda prompt, _: "Yes." if associated & set(_shown(prompt)) else "No.")
    remaining = find_descriptors(pl.Series([" ".join(names)]), "concept", encoder, judge)
    assert associated <= set(remaining) or belonging == count
    assert len(remaining) <= max(belonging + 1, 2)
    if belonging < count - 2:
        assert len(remaining) >= min(2, count)
    assert len(judge.asked) <= 8
    for (question,) in judge.asked:
        listed = _shown(question.content)
        assert listed == names[names.index(listed[0]) :][:15]
        assert (
            (names.index(listed[0]) <= len(remaining))
            if associated & set(listed)
            else (names.index(listed[0]) + 1 >= len(remaining))
        )


def test_an_answer_that_cannot_be_read_is_asked_for_again_and_then_keeps_the_threshold_low() -> None:
    texts = pl.Series(["alpha beta gamma delta"])
    encoder = Numbered({"alpha": 0.75, "beta": 0.5, "gamma": 0.25, "delta": 0.125})
    patient = Says(lambda _, turns: "No" if turns == 3 else "Hm.")
    assert find_descriptors(texts, "x", encoder, patient) == ["alpha", "beta"]
    assert [len(requests) for requests in patient.asked] == [1, 3, 1, 3]
    assert find_descriptors(texts, "x", encoder, Says(lambda *_: None)) == ["alpha", "beta", "gamma", "delta"]


def test_a_search_that_cannot_be_made_says_so() -> None:
    texts, encoder = pl.Series(["red two three four"]), Numbered({"red": 0.5, "two": 0.25, "three": 0.125})
    with pytest.raises(InputError, match="contain no words"):
        find_descriptors(pl.Series(["12", None]), "x", encoder, Says(lambda *_: ""), threshold=0.5)
    for status, error, message in (
        ("failed", ProviderError, "server: down"),
        ("missing", Unfinished, "interrupted"),
    ):
        with pytest.raises(error, match=message):
            find_descriptors(texts, "x", encoder, Says(lambda *_: "", status=status))


@pytest.mark.verify
def test_real_vectors_find_the_words_of_a_country() -> None:
    from tiltmeter.models._text_models import SentenceEncoder

    encoder = SentenceEncoder(minilm_folder(), store=None)
    text = (
        "In Argentina, people from Buenos Aires dance tango. The Argentine peso fell. A table, a window,"
        " a bicycle were sold on Monday."
    )
    words = find_descriptors(pl.Series([text]), "Argentina", encoder, Says(lambda *_: ""), threshold=0)
    assert words[:4] == ["Argentina", "Argentine", "Aires", "Buenos"]
    assert {"peso", "tango", "people"} == set(words[4:7])


@pytest.mark.parametrize(
    "answer",
    [
        '{"replacements": [{"old": "peso", "new": "real"}, {"old": "Tango", "new": "samba"}]}',
        'Sure!\n```json\n[{"peso": "real", "tango": "samba",}]\n```\nHope [that] helps {you}.',
        "{'peso': 'real', 'tango': 'samba'}",
        '<think>{"peso": "euro"}</think> {“peso”: “real”, “tango”: “samba”}'.replace("“", '"').replace(
            "”", '"'
        ),
        "{“peso”: “real”, “tango”: “samba”}",
        '{"Argentina": {"Brazil": {"peso": " real ", "tango": "samba", "wine": "coffee", "the": null}}}',
    ],
)
def test_proposals_are_read_however_they_are_wrapped(answer: str) -> None:
    proposals = propose_replacements(
        ["peso", "tango", "the", "Peso"], "Argentina", "Brazil", Says(lambda *_: answer)
    )
    assert proposals.words == {"peso": "real", "tango": "samba"}
    assert proposals.left_out == {"the": "the judge gave no counterpart"}


def test_what_is_of_no_use_is_left_out_with_a_reason() -> None:
    answer = json.dumps({"a1": "a1", "b1": "x" * 81, "c1": 3, "d1": "ok", "other": "z"})
    proposals = propose_replacements(["a1", "b1", "c1", "d1"], "A", "B", Says(lambda *_: answer))
    assert (proposals.words, list(proposals.left_out)) == ({"d1": "ok"}, ["a1", "b1", "c1"])
    assert "the word itself" in proposals.left_out["a1"]
    assert "more than 80 characters" in proposals.left_out["b1"]
    nothing = propose_replacements(["a1"], "A", "B", Says(lambda *_: '{"replacements": []}'))
    assert nothing.left_out == {"a1": "the judge gave no counterpart"}


def test_code_in_an_answer_is_never_run_and_a_useless_answer_is_asked_for_again() -> None:
    judge = Says(lambda _, turns: '{"peso": "real"}' if turns == 3 else "__import__('os').abort()")
    assert propose_replacements(["peso"], "Argentina", "Brazil", judge).words == {"peso": "real"}
    assert "it holds no JSON" in judge.asked[1][-1].content
    proposals = propose_replacements(["peso"], "Argentina", "Brazil", Says(lambda *_: '{"peso": "re'))
    assert proposals.words == {}
    assert "could not be used" in proposals.left_out["peso"]


def test_many_words_are_asked_about_in_several_questions_at_once() -> None:
    words = [f"word{number}" for number in range(120)]
    judge = Says(lambda prompt, _: json.dumps({word: f"new {word}" for word in _shown(prompt)}))
    assert list(propose_replacements(words, "A", "B", judge).words) == words
    assert (judge.calls, len(judge.asked)) == (1, 3)
    assert propose_replacements([], "A", "B", judge).words == {}


@given(st.text(alphabet="{}[]\",:'a\\ \n", max_size=60))
def test_no_answer_breaks_the_reader(answer: str) -> None:
    proposals = propose_replacements(["a", "b"], "A", "B", Says(lambda *_: answer))
    assert set(proposals.words) | set(proposals.left_out) == {"a", "b"}


def test_braces_in_words_and_names_are_left_alone() -> None:
    judge = Says(lambda _, turns: '{"{target}": "b"}' if turns == 3 else "?")
    proposals = propose_replacements(["{target}", "{problem}"], "{words}", "B", judge)
    assert 'text about "{words}" is to be rewritten as a text about "B"' in judge.asked[0][0].content
    assert '["{target}", "{problem}"]' in judge.asked[0][0].content
    assert judge.asked[1][-1].content.startswith(
        "That could not be used: it holds no JSON with old and new words."
    )
    assert proposals.words == {"{target}": "b"}
