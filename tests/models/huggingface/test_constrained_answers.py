"""Answers of local models constrained to a list: complete, drawn with the probabilities of the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import lazy_loader
import pytest

from conftest import Tiltmeter
from support.answering import answers
from support.tiny_models import THINKS, config, tokenizer
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model
from tiltmeter.models._base import ALLOWED
from tiltmeter.models._huggingface import create
from tiltmeter.models._prompts import PromptReader
from tiltmeter.models._token_lists import START, TokenList, Vocabulary
from tiltmeter.testing import check_provider

torch: Any = lazy_loader.load("torch")

Make = Callable[..., Path]
LETTERS = ("(a)", "(b)", "(c)", "(refuse)")
LISTS = (("no", "yes", "refuse"), LETTERS, ("no", "none", "nothing"), ("José", "Zoë 🙂", "the nurse"))
FREE = Sampling(temperature=1.0, max_tokens=40, seed=5)


def local(folder: Path, **options: str) -> Model:
    return create_model(f"hf/{folder}", options=options)


def asked(prompt: str, allowed: Sequence[str]) -> tuple[Message, ...]:
    return Message("user", prompt), Message(ALLOWED, json.dumps(list(allowed)))


def choice(completion: Completion) -> str:
    assert completion.text is not None
    return str(json.loads(completion.text)["answer"])


def expected(folder: Path, prompt: str, allowed: TokenList, temperature: float) -> dict[str, float]:
    """The probability of each allowed answer if every token is drawn among those that may follow."""
    from transformers import AutoModelForCausalLM

    net, words = AutoModelForCausalLM.from_pretrained(folder), tokenizer()
    start = words(f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
    end = words.eos_token_id
    probabilities: Counter[str] = Counter()
    stack = [(start, START, 1.0)]
    while stack:
        ids, place, chance = stack.pop()
        tokens = allowed.tokens(place, [end])
        with torch.inference_mode():
            logits = net(torch.tensor([ids])).logits[0, -1]
        for token, share in zip(tokens, (logits[tokens] / temperature).softmax(0).tolist(), strict=True):
            after = place if token == end else allowed.steps[place][token]
            complete = allowed.complete(after)
            if complete is not None and (token == end or not allowed.tokens(after, ())):
                probabilities[complete] += chance * share
            else:
                stack.append(([*ids, token], after, chance * share))
    return dict(probabilities)


@pytest.mark.parametrize("allowed", LISTS, ids=lambda case: case[0])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_every_answer_is_on_the_list(chat_model: Make, kind: str, allowed: tuple[str, ...]) -> None:
    model = local(chat_model(kind))
    for sampling in (
        FREE,
        Sampling(temperature=0.0),
        Sampling(temperature=2.0, top_p=0.3, extra={"top_k": 2, "repetition_penalty": 1.3}),
    ):
        completions = answers(
            model, [asked("Who?", allowed), asked("Why the nurse?", allowed)], sampling, samples=range(4)
        )
        assert {choice(completion) for completion in completions} <= set(allowed)
        assert {completion.finish_reason for completion in completions} == {"stop"}
        assert all(completion.output_tokens and completion.thinking is None for completion in completions)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("allowed", "temperature"),
    [(LISTS[0], 1.0), (LETTERS, 0.7), (LISTS[2], 1.5)],
    ids=["yes", "letters", "prefix"],
)
def test_answers_have_the_probabilities_of_the_model(
    chat_model: Make, allowed: tuple[str, ...], temperature: float
) -> None:
    rows, folder = 1500, chat_model()
    chances = expected(folder, "Who?", Vocabulary(tokenizer()).token_list(allowed), temperature)
    assert sum(chances.values()) == pytest.approx(1)
    assert min(chances.values()) > 0
    model = local(folder, batch_size="500")
    drawn = answers(
        model, [asked("Who?", allowed)], Sampling(temperature=temperature, seed=1), samples=range(rows)
    )
    counts = Counter(map(choice, drawn))
    for answer, chance in chances.items():
        assert abs(counts[answer] / rows - chance) <= 4.5 * (chance * (1 - chance) / rows) ** 0.5, (
            answer,
            counts[answer] / rows,
            chance,
        )


@pytest.mark.verify
def test_answers_do_not_depend_on_the_batch(chat_model: Make) -> None:
    model = local(chat_model())
    mixed = [
        asked("Who?", LETTERS),
        (Message("user", "Tell me a story"),),
        asked("the nurse " * 30, LISTS[2]),
        asked("Who?", LISTS[0]),
        (Message("user", "x"),),
    ]
    together, alone = (
        answers(model, mixed, FREE, range(3)),
        answers(model, mixed, FREE, range(3), together=False),
    )
    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert len({answer.text for answer in together[1::5]}) == 3
    assert [answer.text for answer in answers(model, mixed, FREE, range(3))] == [
        answer.text for answer in together
    ]


def test_samples_and_seeds_differ(chat_model: Make) -> None:
    model = local(chat_model())
    drawn = [choice(answer) for answer in answers(model, [asked("Who?", LISTS[2])], FREE, range(60))]
    assert len(set(drawn)) > 1
    of_other_seed = answers(model, [asked("Who?", LISTS[2])], Sampling(temperature=1.0, seed=6), range(60))
    assert [choice(answer) for answer in of_other_seed] != drawn


def test_an_answer_that_is_cut_off_is_free(chat_model: Make) -> None:
    model = local(chat_model())
    cut = answers(
        model,
        [asked("Who?", ["the nurse and the doctor or the pilot"])],
        Sampling(temperature=1.0, max_tokens=2),
    )
    assert (cut[0].finish_reason, cut[0].output_tokens) == ("length", 2)
    assert "the nurse and the doctor or the pilot".startswith(str(cut[0].text))


def test_a_thinking_section_is_closed_before_the_answer(chat_model: Make) -> None:
    model = local(chat_model(template=THINKS))
    (answer,) = answers(model, [asked("Who?", LISTS[0])], FREE)
    assert choice(answer) in LISTS[0]
    (free,) = answers(model, ["Who?"], FREE)
    assert (answer.input_tokens or 0) > (free.input_tokens or 0)


@pytest.mark.parametrize("mark", ["think", "thinking"])
def test_a_thinking_section_is_closed_with_its_own_mark(mark: str) -> None:
    from transformers import GenerationConfig

    words = tokenizer(THINKS.replace("<think>", f"<{mark}>"))
    reader = PromptReader("hf/tiny", words, config("llama"), GenerationConfig(), "X")
    row = reader.read(asked("Who?", LISTS[0]), FREE, 0)
    assert words.decode(row.ids).endswith(f"<{mark}>\n\n</{mark}>\n\n")
    assert not row.thinking
    assert reader.read([Message("user", "Who?")], FREE, 0).thinking


@pytest.mark.parametrize("content", ["[]", '["yes", ""]', "[3]", "yes", '{"yes": 1}'])
def test_lists_of_answers_that_cannot_be_used_are_refused(chat_model: Make, content: str) -> None:
    with pytest.raises(ModelError, match="the list of allowed answers cannot be used") as caught:
        answers(local(chat_model()), [(Message("user", "Who?"), Message(ALLOWED, content))], FREE)
    assert caught.value.scope == "permanent"


def test_all_spellings_are_allowed() -> None:
    words = tokenizer()
    tokens = Vocabulary(words).token_list(("a nurse", "a"))
    spelled = {words.decode([token]) for token in tokens.steps["a"]}
    assert spelled >= {" ", " nurse"}
    assert all(" nurse".startswith(text) for text in spelled)
    assert tokens.tokens("a", [0]) == [*tokens.steps["a"], 0], "it may end here"
    assert 0 not in tokens.tokens("a n", [0])
    assert tokens.tokens("a nurse", [0]) == [0]


def words_with_blanks() -> Any:
    """Return a tokenizer of whole words with the blank before each, also at the beginning of a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<end>", "<unk>", "▁a", "▁yes", "▁sir", "▁no"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>")


@pytest.mark.parametrize("allowed", list(permutations(("yes", "yes sir", "no"))), ids=", ".join)
def test_the_order_of_answers_does_not_matter(allowed: tuple[str, ...]) -> None:
    words = words_with_blanks()
    tokens = Vocabulary(words).token_list(allowed)
    spelled = {words.decode([token]): token for token in tokens.tokens(START, [])}
    assert set(spelled) == {"yes", "no"}
    place = tokens.steps[START][spelled["yes"]]
    assert tokens.complete(place) == "yes"
    assert [words.decode([token]) for token in tokens.tokens(place, [])] == ["sir"]


def test_the_provider_meets_its_requirements(chat_model: Make) -> None:
    check_provider(create, f"hf/{chat_model()}")


@pytest.mark.verify
def test_a_run_is_constrained_in_this_process(tiltmeter: Tiltmeter, chat_model: Make, tmp_path: Path) -> None:
    import polars as pl

    command = "run genderbench/gest -P answers=constrained --display none --limit 12 --out run -m"
    done = tiltmeter(command, f"hf/{chat_model(positions=1024)}", exits=0)
    assert "were not constrained" not in done.stdout
    measures = pl.read_parquet(tmp_path / "run" / "measures.parquet")
    assert measures["constrained"].all()
    assert set(measures["outcome"]) <= {"answered", "refused"}
