"""The open box through the provider: states of a source prompt change the answer to a target prompt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.answering import answers as all_answers
from tiltmeter.engine import Journal, Keys, Request, generate
from tiltmeter.models import Message, Model, ModelError, Sampling, create_model

Make = Callable[..., Path]
GREEDY = Sampling(temperature=0.0, max_tokens=24)
FREE = Sampling(temperature=1.0, max_tokens=24, seed=5)
TARGET = "Tell me a story about ⟦X⟧ in the office"
NURSE, PILOT = "the nurse and Emily at school", "John the pilot"


def asked(span: str, target: str = TARGET, opening: str | None = None) -> tuple[Message, ...]:
    messages = (
        Message("source", f"a story about {span} or one"),
        Message("span", span),
        Message("user", target),
    )
    return messages if opening is None else (*messages, Message("assistant", opening))


answers = partial(all_answers, sampling=GREEDY)


def local(folder: Path, **options: str) -> Model:
    return create_model(f"hf/{folder}", options={"source_layer": "1", "target_layer": "2", **options})


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
def test_the_source_prompt_alone_changes_the_answer(chat_model: Make, kind: str) -> None:
    nurse, pilot, again = answers(local(chat_model(kind)), [asked(NURSE), asked(PILOT), asked(NURSE)])
    assert nurse.text != pilot.text
    assert nurse.text == again.text


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_an_answer_depends_on_its_request_alone(chat_model: Make, kind: str) -> None:
    longer = asked("one two three four five and the doctor", TARGET + " lives " * 12)
    requests = [
        asked(NURSE),
        longer,
        (Message("user", "Tell me a story about John"),),
        asked(PILOT, opening="She"),
    ]
    together = answers(local(chat_model(kind)), requests, sampling=FREE)
    alone = [
        answers(local(chat_model(kind), batch_size="1"), [request], sampling=FREE)[0] for request in requests
    ]
    assert [answer.text for answer in together] == [answer.text for answer in alone]


def test_layers_change_the_answer_and_the_fingerprint(chat_model: Make) -> None:
    first, second = local(chat_model()), local(chat_model(), source_layer="0")
    assert first.fingerprint != second.fingerprint
    assert answers(first, [asked(NURSE)])[0].text != answers(second, [asked(NURSE)])[0].text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Emily", "John", TARGET), "must occur exactly once in the source prompt"),
        (("one one", "one", TARGET), "must occur exactly once in the source prompt"),
        (("Emily", "Emily", "no marker"), "exactly once"),
    ],
)
def test_requests_that_cannot_be_patched_fail(
    chat_model: Make, arguments: tuple[str, str, str], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        answers(local(chat_model()), [tuple(map(Message, ("source", "span", "user"), arguments))])
    assert caught.value.scope == "permanent"


def test_a_layer_that_does_not_exist_is_refused(chat_model: Make) -> None:
    with pytest.raises(ModelError, match="this model has the blocks 0 to 3"):
        answers(local(chat_model(), target_layer="9"), [asked(NURSE)])


def test_patched_requests_go_through_engine_and_journal(chat_model: Make, journal: Journal) -> None:
    model = local(chat_model())
    requests = [Request(asked(span), sample) for span in (NURSE, PILOT) for sample in range(3)]
    assert generate(model, requests, FREE, journal=journal).answered == 6
    table = journal.fetch([Keys(model.fingerprint, FREE)(*request) for request in requests])
    assert table["text"].n_unique() == 6
    assert generate(model, requests, FREE, journal=journal).held == 6
