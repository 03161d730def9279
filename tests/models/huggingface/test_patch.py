"""The open box: states of one prompt in another, on small models and on the storyteller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lazy_loader
import pytest

from fixtures.storyteller.prompts import Prompts
from support.storyteller import FOLDER
from tiltmeter.errors import InputError
from tiltmeter.models import ModelError
from tiltmeter.models._generation import find_blocks, patched, source_states
from tiltmeter.models._prompts import MARKER, MarkedTokens, expand_target, read_span

# Importing them takes seconds, and every worker reads this module.
torch: Any = lazy_loader.load("torch")
tokenizers: Any = lazy_loader.load("tokenizers")

SPANS = [
    "Zhang, an Asian (male) and Lamar, black race at the location of golf course",
    "Emily and John at the location of museum",
]
SOURCES = [
    f"<|user|>{before}{span}.<|end|>" for before, span in zip(("Tell a story about ", ""), SPANS, strict=True)
]
TARGET = (
    f"<|user|>Tell a story in at most ten sentences about {MARKER}. Output only the story.<|end|>"
    "<|assistant|>Here is the story."
)
OUTER, INNER = 2, 3
IS_MADE = (FOLDER / "model.safetensors").is_file()


def small(architecture: str) -> Any:
    """A model with random weights, large enough to be far from constant."""
    import transformers as hf

    torch.manual_seed(3)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "initializer_range": 0.15,
    }
    if architecture == "gpt2":
        config: Any = hf.GPT2Config(
            n_embd=32, n_layer=5, n_head=4, vocab_size=1000, n_positions=256, initializer_range=0.4
        )
    elif architecture == "gpt_neox":
        config = hf.GPTNeoXConfig(intermediate_size=64, **sizes)
    else:
        kind = hf.LlamaConfig if architecture == "llama" else hf.Qwen2Config
        config = kind(intermediate_size=64, num_key_value_heads=2, **sizes)
    return hf.AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    import transformers as hf

    from fixtures.storyteller.tokens import make_tokenizer
    from fixtures.storyteller.train import all_texts

    return hf.AutoTokenizer.from_pretrained(FOLDER) if IS_MADE else make_tokenizer(all_texts(Prompts()))


@pytest.fixture(
    scope="module", params=["llama", "qwen2", "gpt2", "gpt_neox", *(["storyteller"] if IS_MADE else [])]
)
def model(request: pytest.FixtureRequest) -> Any:
    if request.param != "storyteller":
        return small(request.param)
    import transformers as hf

    return hf.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


def states_of(
    model: Any, tokenizer: Any, sources: Sequence[str], spans: Sequence[str], layer: int = OUTER
) -> list[Any]:
    """Return the states of the span in each source."""
    places = [
        (text, (text.index(span), text.index(span) + len(span)))
        for text, span in zip(sources, spans, strict=True)
    ]
    return source_states(model, [read_span(tokenizer, text, place) for text, place in places], layer)


def batch_of(rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the rows as a batch, padded on the left."""
    width = max(map(len, rows))
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    ids = torch.tensor([[1] * (width - len(row)) + list(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def logits_of(model: Any, rows: Sequence[Sequence[int]]) -> list[Any]:
    batch = batch_of(rows)
    with torch.inference_mode():
        logits = model(**batch, position_ids=(batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)).logits
    return [logits[number, -len(row) :] for number, row in enumerate(rows)]


def greedy(model: Any, rows: Sequence[Sequence[int]], *, cached: bool) -> list[list[int]]:
    batch = batch_of(rows)
    settings = {
        "max_new_tokens": 12,
        "min_new_tokens": 12,
        "do_sample": False,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }
    with torch.inference_mode():
        generated = model.generate(**batch, **settings, use_cache=cached)
    return generated[:, batch["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]


@contextmanager
def tuple_outputs(model: Any, layer: int) -> Iterator[None]:
    """Let blocks give a tuple with the hidden states first, as in older versions of transformers.

    The block after takes them out again.
    """
    blocks = find_blocks(model, layer)
    hooks = [
        blocks[layer].register_forward_hook(lambda _block, _inputs, entries: (entries, "attention weights")),
        blocks[layer + 1].register_forward_pre_hook(lambda _block, inputs: (inputs[0][0], *inputs[1:])),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def test_a_target_patched_with_its_own_states_stays_as_it_is(model: Any, tokenizer: Any) -> None:
    target, placeholders = expand_target(tokenizer, TARGET, 7, "X"), " ".join("X" * 7)
    states = states_of(model, tokenizer, [TARGET.replace(MARKER, placeholders)], [placeholders], INNER)
    assert [len(state) for state in states] == [7]
    plain = logits_of(model, [target.ids])[0]
    with patched(model, INNER, states, [target]):
        same = logits_of(model, [target.ids])[0]
    assert torch.allclose(plain, same, atol=1e-5)


def test_states_of_another_prompt_change_the_logits_from_there_on(model: Any, tokenizer: Any) -> None:
    states = states_of(model, tokenizer, SOURCES[:1], SPANS[:1])[0]
    target = expand_target(tokenizer, TARGET, len(states), "X")
    plain = logits_of(model, [target.ids])[0]
    with patched(model, INNER, [states], [target]):
        changed = logits_of(model, [target.ids])[0]
    first = target.positions[0]
    assert torch.equal(plain[:first], changed[:first])
    assert (plain[first:] - changed[first:]).abs().amax(-1).min() > 1e-4, (
        "every later token sees the patched ones"
    )
    assert torch.allclose(plain, logits_of(model, [target.ids])[0]), "the patch ends with its context"


def two_targets(model: Any, tokenizer: Any) -> tuple[list[Any], list[MarkedTokens], list[list[int]]]:
    """States of two sources of different lengths, their targets, and the tokens of these."""
    states = states_of(model, tokenizer, SOURCES, SPANS)
    assert len(states[0]) != len(states[1])
    targets = [expand_target(tokenizer, TARGET, len(state), "X") for state in states]
    return states, targets, [target.ids for target in targets]


def test_patching_once_with_a_cache_equals_patching_at_every_step(model: Any, tokenizer: Any) -> None:
    states, targets, ids = two_targets(model, tokenizer)
    with patched(model, INNER, states, targets):
        cached = greedy(model, ids, cached=True)
    width, steps = max(map(len, ids)), 0
    places = [
        (number, width - len(target.ids) + at)
        for number, target in enumerate(targets)
        for at in target.positions
    ]
    row, column = torch.tensor(places).T

    def at_every_step(_block: Any, _inputs: Any, output: Any) -> Any:
        nonlocal steps
        steps += 1
        hidden = output[0] if isinstance(output, tuple) else output
        hidden[row, column] = torch.cat(states)
        return output

    hook = find_blocks(model, INNER)[INNER].register_forward_hook(at_every_step)
    try:
        uncached = greedy(model, ids, cached=False)
    finally:
        hook.remove()
    assert (steps, cached) == (12, uncached)
    with patched(model, INNER, states, targets):
        assert greedy(model, ids, cached=False) == uncached, (
            "without a cache, the prompt is patched each time it is read"
        )
    assert cached != greedy(model, ids, cached=True), "this model says something else without the patch"


def test_a_batch_of_different_lengths_equals_one_by_one(model: Any, tokenizer: Any) -> None:
    states, targets, ids = two_targets(model, tokenizer)
    alone = [
        states_of(model, tokenizer, [text], [span])[0] for text, span in zip(SOURCES, SPANS, strict=True)
    ]
    assert all(
        torch.allclose(state, expected, atol=1e-5) for state, expected in zip(states, alone, strict=True)
    )
    with patched(model, INNER, states, targets):
        together = logits_of(model, ids)
    for number in (0, 1):
        with patched(model, INNER, [alone[number]], [targets[number]]):
            single = logits_of(model, [ids[number]])[0]
        assert torch.allclose(together[number], single, atol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_blocks_may_give_tuples(architecture: str, tokenizer: Any) -> None:
    model = small(architecture)
    states, targets, ids = two_targets(model, tokenizer)
    with patched(model, INNER, states, targets):
        expected = logits_of(model, ids)
    with tuple_outputs(model, OUTER):
        again = states_of(model, tokenizer, SOURCES, SPANS)
    with tuple_outputs(model, INNER), patched(model, INNER, again, targets):
        logits = logits_of(model, ids)
    assert all(torch.equal(before, after) for before, after in zip(expected, logits, strict=True))


def test_states_are_those_transformers_gives_after_the_block(tokenizer: Any) -> None:
    model = small("llama")
    read = tokenizer(SOURCES[1], add_special_tokens=False, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(read["input_ids"], output_hidden_states=True).hidden_states[OUTER + 1][0]
    words = SPANS[1].split()
    (states,) = states_of(model, tokenizer, SOURCES[1:], SPANS[1:])
    assert states.shape == (len(words), 32)
    assert torch.allclose(states, hidden[1 : 1 + len(words)], atol=1e-6)


def wrapped(core: Any, **special: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=core, **special)


def byte_level_tokenizer() -> Any:
    """Return a tokenizer that keeps blanks with the next word and joins repeated letters by merges."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    texts = ["X X X X a story about X.", "XX XX XX about XXXX", "a story a story about"] * 5
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=alphabet)
    core.train_from_iterator(texts, trainer)
    return wrapped(core)


def merging_tokenizer() -> Any:
    """Return a tokenizer whose tokens span blanks: "X X" is one token."""
    pieces = [*"abcdefghijklmnopqrstuvwxyz. X<|>", "X X", "X X X X", "about ", "about", " X", "a story "]
    core = tokenizers.Tokenizer(
        tokenizers.models.Unigram([("<unk>", -9.0), *((piece, -3.0) for piece in pieces)], unk_id=0)
    )
    core.decoder = tokenizers.decoders.Fuse()
    return wrapped(core, unk_token="<unk>")


@pytest.mark.parametrize("make", [byte_level_tokenizer, merging_tokenizer])
@pytest.mark.parametrize("count", [1, 2, 4, 17])
def test_the_marker_becomes_exactly_as_many_placeholders(make: Callable[[], Any], count: int) -> None:
    tokenizer = make()
    target = expand_target(tokenizer, f"a story about {MARKER}. a story", count, "X")
    assert target.positions == list(range(target.positions[0], target.positions[0] + count))
    assert [tokenizer.decode([target.ids[at]]).strip() for at in target.positions] == ["X"] * count
    context = [token for number, token in enumerate(target.ids) if number not in target.positions]
    assert "X" not in tokenizer.decode(context)
    assert tokenizer.decode(target.ids).replace(" ", "") == "astoryabout" + "X" * count + ".astory"


def test_the_placeholders_are_those_of_the_written_out_text(tokenizer: Any) -> None:
    target = expand_target(tokenizer, TARGET, 5, "X")
    assert target.ids == tokenizer(TARGET.replace(MARKER, "X X X X X"), add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("rendered", "placeholder", "message"),
    [
        ("Tell a story about the museum.", "X", "exactly once, but contains it 0 times"),
        (f"Tell a story about {MARKER} and {MARKER}.", "X", "exactly once, but contains it 2 times"),
        (f"a story about {MARKER}.", "Qqq", "is not a single token"),
    ],
)
def test_a_target_that_cannot_be_patched_is_refused(
    tokenizer: Any, rendered: str, placeholder: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        expand_target(tokenizer, rendered, 3, placeholder)


@pytest.mark.parametrize("layer", [-1, 5, 40])
def test_a_block_that_is_not_there_is_refused(tokenizer: Any, layer: int) -> None:
    model = small("gpt2")
    with pytest.raises(InputError, match=f"no block {layer}: this model has the blocks 0 to 4"):
        states_of(model, tokenizer, SOURCES[1:], SPANS[1:], layer)
    with pytest.raises(InputError, match=f"no block {layer}"), patched(model, layer, [], []):
        pass


def test_a_span_that_no_token_spells_is_refused() -> None:
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "Emily": 1}, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = wrapped(core, unk_token="<unk>")
    with pytest.raises(ModelError, match="no token of the prompt corresponds to ' '"):
        states_of(small("llama"), tokenizer, ["Emily Emily"], [" "], 0)


def test_a_model_of_another_make_is_refused() -> None:
    with pytest.raises(InputError, match="does not support Linear"):
        find_blocks(torch.nn.Linear(2, 2), 0)
