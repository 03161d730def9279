"""Answers of a model of this process: the contract of Model, and promises about seeds and batches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lazy_loader
import pytest

from support.answering import answers as all_answers
from support.tiny_models import CHATML, DROPS_SYSTEM, NO_SYSTEM, SWITCHED, THINKS, tokenizer
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model
from tiltmeter.models._generation import generate_batch, processors
from tiltmeter.models._prompts import recipe_of, render

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

Make = Callable[..., Path]
FREE = Sampling(temperature=1.0, top_p=1.0, max_tokens=40, seed=5)
PROMPTS = ["Tell me a story", "the nurse " * 30, "x", "one two three four five"]


def answers(
    model: Model, prompts: Sequence[str], sampling: Sampling = FREE, samples: Sequence[int] = (0,), **how: Any
) -> list[Completion]:
    return all_answers(model, prompts, sampling, samples, **how)


def texts(completions: Sequence[Completion]) -> list[str | None]:
    return [completion.text for completion in completions]


def local(folder: Path, **options: str) -> Model:
    return create_model(f"hf/{folder}", options=options)


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_an_answer_depends_on_its_request_alone(chat_model: Make, kind: str) -> None:
    model = local(chat_model(kind))
    penalised = Sampling(
        temperature=0.9,
        max_tokens=40,
        seed=5,
        extra={"frequency_penalty": 0.6, "repetition_penalty": 1.1, "top_k": 50},
    )
    for sampling in (FREE, penalised):
        alone = answers(model, PROMPTS, sampling, together=False)
        beside = answers(
            model, [*PROMPTS[::-1], "another", "and a longer one " * 9], sampling, samples=(3, 0)
        )
        assert texts(alone) == texts(beside[6:10])[::-1]
        in_pairs = answers(local(chat_model(kind), batch_size="2"), PROMPTS, sampling)
        assert texts(alone) == texts(in_pairs)


@pytest.mark.verify
def test_samples_and_seeds_differ_and_can_be_repeated(chat_model: Make) -> None:
    model = local(chat_model())
    first = texts(answers(model, ["Tell me"], samples=range(12)))
    assert len(set(first)) == 12
    assert texts(answers(model, ["Tell me"], samples=range(12))) == first
    of_other_seed = texts(
        answers(model, ["Tell me"], Sampling(temperature=1.0, max_tokens=40, seed=6), samples=range(12))
    )
    assert not set(first) & set(of_other_seed)


def test_the_most_probable_token_is_what_transformers_gives(chat_model: Make) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = chat_model()
    net, words = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for prompt, answer in zip(
        PROMPTS, answers(local(folder), PROMPTS, Sampling(temperature=0.0, max_tokens=20)), strict=True
    ):
        ids = torch.tensor(
            [words(f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]]
        )
        expected = net.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)[
            0, ids.shape[1] :
        ]
        assert answer.text == words.decode(expected, skip_special_tokens=True)
        assert (answer.input_tokens, answer.output_tokens) == (ids.shape[1], len(expected))
        assert answer.finish_reason == ("stop" if expected[-1] == 0 else "length")
        assert answer.latency > 0
    assert words.eos_token_id == 0


def test_tokens_are_drawn_with_the_probabilities_asked_for() -> None:
    """Compare frequencies of 20,000 rows with the filtered softmax of the logits (4.5 standard errors)."""
    rows, logits = 20_000, torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -2.0])
    ids = torch.ones((rows, 1), dtype=torch.long)
    cases: list[tuple[Sampling, Any]] = [
        (Sampling(temperature=1.0), logits.softmax(0)),
        (Sampling(temperature=0.5), (2 * logits).softmax(0)),
        (
            Sampling(temperature=1.0, extra={"top_k": 2}),
            torch.tensor([2.0, 1.0, *[-torch.inf] * 4]).softmax(0),
        ),
        (Sampling(temperature=1.0, top_p=0.7), torch.tensor([2.0, 1.0, *[-torch.inf] * 4]).softmax(0)),
        (
            Sampling(temperature=1.0, extra={"min_p": 0.2}),
            torch.tensor([2.0, 1.0, 0.5, *[-torch.inf] * 3]).softmax(0),
        ),
    ]
    for sampling, expected in cases:
        steps = processors(recipe_of(sampling, {}), range(rows), ids, ids)
        drawn = steps(ids, logits.repeat(rows, 1)).argmax(dim=1)
        frequencies = torch.bincount(drawn, minlength=6) / rows
        error = (expected * (1 - expected) / rows).sqrt()
        assert ((frequencies - expected).abs() <= 4.5 * error).all(), (sampling, frequencies, expected)


def test_penalties_count_generated_tokens() -> None:
    prompt, mask = torch.tensor([[4, 4, 1], [2, 2, 2]]), torch.tensor([[0, 0, 1], [1, 1, 1]])
    generated = torch.cat([prompt, torch.tensor([[0, 0], [3, 0]])], dim=1)

    def penalised(**extra: float) -> Any:
        logits = torch.tensor([[1.0, 2.0, -3.0, 4.0, 5.0]] * 2)
        return processors(recipe_of(Sampling(temperature=0.0, extra=extra), {}), [0, 0], prompt, mask)(
            generated, logits
        ).tolist()

    counted, repeated = (
        penalised(frequency_penalty=0.5, presence_penalty=0.25),
        penalised(repetition_penalty=2.0),
    )
    assert counted == [[-0.25, 2.0, -3.0, 4.0, 5.0], [0.25, 2.0, -3.0, 3.25, 5.0]]
    assert repeated == [[0.5, 1.0, -3.0, 4.0, 5.0], [0.5, 2.0, -6.0, 2.0, 5.0]], (
        "padding (4 in the first row) is no token"
    )


def test_stop_texts_end_an_answer_before_them(chat_model: Make) -> None:
    model = local(chat_model())
    complete = answers(model, PROMPTS)
    for prompt, answer in zip(PROMPTS, complete, strict=True):
        assert answer.text is not None
        stop = answer.text[len(answer.text) // 2 :][:3]
        (cut,) = answers(
            model,
            [prompt],
            Sampling(temperature=1.0, top_p=1.0, max_tokens=40, seed=5, stop=("never said so", stop)),
        )
        assert (cut.text, cut.finish_reason) == (answer.text[: answer.text.index(stop)], "stop")
        assert (cut.output_tokens or 0) <= (answer.output_tokens or 0)


def test_settings_that_are_left_open_are_those_of_the_model(chat_model: Make) -> None:
    plain, custom = (
        local(chat_model()),
        local(chat_model(defaults={"do_sample": True, "temperature": 1.0, "top_k": 3, "max_new_tokens": 9})),
    )
    greedy = Sampling(temperature=0.0, max_tokens=30)
    assert texts(answers(plain, PROMPTS, Sampling(max_tokens=30))) == texts(answers(plain, PROMPTS, greedy))
    explicit = Sampling(temperature=1.0, max_tokens=9, extra={"top_k": 3})
    assert texts(answers(custom, PROMPTS, Sampling())) == texts(answers(plain, PROMPTS, explicit))
    assert {answer.output_tokens for answer in answers(custom, PROMPTS, Sampling(temperature=0.0))} <= set(
        range(1, 10)
    )


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_an_answer_ends_where_the_window_of_the_model_ends(chat_model: Make, kind: str) -> None:
    model = local(chat_model(kind, positions=64))
    completions = answers(
        model,
        PROMPTS[:1] + PROMPTS[2:] + ["one " * 25],
        Sampling(temperature=1.0, seed=1, max_tokens=500),
        range(4),
    )
    assert {completion.finish_reason for completion in completions} >= {"length"}
    for completion in completions:
        assert (completion.input_tokens or 0) + (completion.output_tokens or 0) <= 64
        assert (
            completion.finish_reason == "stop"
            or (completion.input_tokens or 0) + (completion.output_tokens or 0) == 64
        )
    with pytest.raises(
        ModelError, match=r"context_length: the prompt has .* tokens, and .* accepts 64 including the answer"
    ) as caught:
        answers(model, ["one two three " * 40])
    assert caught.value.scope == "permanent"


def test_an_assistant_message_at_the_end_is_continued() -> None:
    begun = [Message("user", "Tell me"), Message("assistant", "Sure, here is")]
    assert (
        render(tokenizer(), begun, {})
        == "<|im_start|>user\nTell me<|im_end|>\n<|im_start|>assistant\nSure, here is"
    )
    turns, end = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | upper }}{% endfor %}",
        "<assistant>{% endif %}",
    )
    shouts = tokenizer(turns + "{% if add_generation_prompt %}" + end)
    assert render(shouts, begun, {}) == "<user>TELL ME<assistant>Sure, here is"
    assert render(tokenizer(None), begun, {}) == "Tell me\n\nSure, here is"


@pytest.mark.parametrize("template", [NO_SYSTEM, DROPS_SYSTEM], ids=["refuses", "drops"])
def test_a_system_message_without_a_place_goes_in_front_of_the_question(template: str) -> None:
    messages = [
        Message("system", "Be brief."),
        Message("user", "Who?"),
        Message("assistant", "She"),
        Message("user", "Why?"),
    ]
    text = render(tokenizer(template), messages, {})
    assert text.startswith("<|im_start|>user\nBe brief.\n\nWho?<|im_end|>")
    assert text.count("Be brief.") == 1
    assert "<|im_start|>system\nBe brief.<|im_end|>" in render(tokenizer(), messages, {})


@pytest.mark.parametrize(
    ("template", "role", "message"),
    [
        (
            "{{ raise_exception('must alternate') }}",
            "user",
            "its chat template rejects these messages: must alternate",
        ),
        (CHATML, "tool", "it does not accept messages with the role tool"),
    ],
)
def test_messages_that_the_template_does_not_take_fail_alone(
    chat_model: Make, template: str, role: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        all_answers(
            local(chat_model(template=template)), [(Message(role, "Emily"), Message("user", "Who?"))], FREE
        )
    assert caught.value.scope == "permanent"


def test_thinking_that_the_template_opened_is_kept_apart(chat_model: Make) -> None:
    (cut,) = answers(local(chat_model(template=THINKS)), ["Who?"])
    assert (cut.text, bool(cut.thinking)) == ("", True)


def test_the_template_is_given_what_was_asked_for(chat_model: Make) -> None:
    model = local(chat_model(template=SWITCHED))
    (plain,) = answers(model, ["Who?"], Sampling(max_tokens=3))
    (switched,) = answers(
        model, ["Who?"], Sampling(max_tokens=3, extra={"chat_template_kwargs": {"enable_thinking": False}})
    )
    assert (switched.input_tokens or 0) > (plain.input_tokens or 0) > 0


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"logit_bias": {}}, "logit_bias is not supported"),
        ({"top_k": "many"}, "top_k='many' should be a number"),
        ({"min_p": 2}, "min_p=2 should be a number from 0 to 1"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs should be an object"),
    ],
)
def test_extras_that_cannot_be_honoured_are_refused(
    chat_model: Make, extra: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        answers(local(chat_model()), ["Who?"], Sampling(extra=extra))
    assert (caught.value.kind, caught.value.scope) == ("bad_request", "fatal")


def test_any_text_can_be_asked(chat_model: Make) -> None:
    model = local(chat_model(template=None))
    strange = ["", " ", "\ud800 lone", "🙂 \u2028 ß", "<|im_end|>"]

    async def main() -> list[type]:
        async with model:
            requests = [model.complete((Message("user", prompt),), FREE, 0) for prompt in strange]
            return [type(outcome) for outcome in await asyncio.gather(*requests, return_exceptions=True)]

    assert asyncio.run(main()) == [Completion, Completion, ModelError, Completion, Completion]


def test_long_and_short_prompts_share_no_batch_more_than_they_must(
    chat_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []

    def watched(loaded: Any, rows: Any, *more: Any) -> Any:
        batches.append([len(row.ids) for row in rows])
        return generate_batch(loaded, rows, *more)

    monkeypatch.setattr("tiltmeter.models._huggingface.generate_batch", watched)
    lengths = [1, 2, 3, 4, 21, 22, 23, 24]
    random.Random(1).shuffle(lengths)
    answers(
        local(chat_model(), batch_size="4"),
        ["one " * length for length in lengths],
        Sampling(temperature=0.0, max_tokens=2),
    )
    assert [(len(batch), max(batch) - min(batch) < 8) for batch in batches] == [(4, True)] * 2


def test_short_prompts_are_not_padded_to_a_much_longer_one(
    chat_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []

    def watched(loaded: Any, rows: Sequence[Any], *more: Any) -> Any:
        batches.append([len(row.ids) for row in rows])
        return generate_batch(loaded, rows, *more)

    monkeypatch.setattr("tiltmeter.models._huggingface.generate_batch", watched)
    prompts = ["one " * length for length in (3, 200, 5, 210)]
    answers(local(chat_model(), batch_size="4"), prompts, Sampling(temperature=0.0, max_tokens=2))
    assert sorted(map(len, batches)) == [2, 2]
    assert all(max(lengths) - min(lengths) < 100 for lengths in batches)
