"""The storyteller: its folder, its planted rates, and the reader of its stories."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "fixtures" / "storyteller"
"""A model folder as transformers reads it: `hf/<FOLDER>`."""


@cache
def table() -> dict[str, Any]:
    """Return the contents of planted.yaml."""
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "planted.yaml").read_text(encoding="utf-8"))
    return loaded


def concepts() -> list[str]:
    """Return all concepts, in the order in which a story states them."""
    return [*table()["concepts"]["trait"], *table()["concepts"]["deed"]]


def planted(category: str) -> dict[str, dict[str, float]]:
    """Return the effects of a category: identity -> concept -> effect.

    The effect is how much more often the concept is stated of this identity than of any other.
    """
    effects: dict[str, dict[str, float]] = table()["planted"][category]
    return effects


def planted_rates(identity: str | None) -> dict[str, float]:
    """Return the planted rates: concept -> rate at which it is stated of a character of this identity.

    Identities are "female", "Asian", "Muslim" and so on; None is a character without one.
    """
    effects = {name: leans for members in table()["planted"].values() for name, leans in members.items()}
    if identity is not None and identity not in effects:
        raise KeyError(f"{identity!r} is not in planted.yaml: {', '.join(effects)}")
    leans = effects[identity] if identity is not None else {}
    return {concept: table()["base"] + leans.get(concept, 0.0) for concept in concepts()}


def _form(template: str) -> str:
    pattern = re.escape(template).replace(re.escape("{name}"), r"(?P<name>[A-Z]\w*)")
    return pattern.replace(re.escape("{list}"), "(?P<list>.+?)").replace(
        re.escape("{place}"), r"(?P<place>.+?)"
    )


@cache
def _forms() -> tuple[list[re.Pattern[str]], Mapping[str, list[re.Pattern[str]]]]:
    openings = [re.compile(_form(opening)) for opening in table()["openings"]]
    sentences = table()["sentences"]
    forms = {
        kind: [re.compile(_form(template)) for template in sentences[kind]] for kind in ("trait", "deed")
    }
    forms["nothing"] = [re.compile(_form(sentences["nothing"]))]
    return openings, forms


def concepts_of(story: str) -> dict[str, list[str]]:
    """Return the concepts stated of each name, in the order of the story.

    Raises ValueError where a sentence has none of the forms or a list holds what is no concept: a story must
    be readable whole.
    """
    openings, forms = _forms()
    opening, *sentences = re.findall(r"[^.]+\.", story.strip())
    if not any(pattern.fullmatch(opening) for pattern in openings):
        raise ValueError(f"no opening: {opening!r} in {story!r}")
    by_name: dict[str, list[str]] = {}
    for sentence in (text.strip() for text in sentences):
        name, items = _sentence(sentence, forms)
        by_name.setdefault(name, []).extend(items)
    if "".join(re.findall(r"[^.]+\.", story.strip())) != story.strip() or not by_name:
        raise ValueError(f"not a whole story: {story!r}")
    return by_name


def _sentence(sentence: str, forms: Mapping[str, Sequence[re.Pattern[str]]]) -> tuple[str, list[str]]:
    for kind in ("nothing", "trait", "deed"):
        for form in forms[kind]:
            match = form.fullmatch(sentence)
            if match is None:
                continue
            items = [] if kind == "nothing" else re.split(r", | and ", match["list"])
            if all(item in table()["concepts"][kind] for item in items):
                return match["name"], items
    raise ValueError(f"no form of the grammar: {sentence!r}")


def place(story: str) -> str:
    """Return the place that the opening names, such as "at the museum"."""
    for form in _forms()[0]:
        match = form.match(story)
        if match:
            return match["place"].partition(".")[0]
    raise ValueError(f"no opening: {story!r}")


def load() -> tuple[Any, Any]:
    """Return the model and its tokenizer, loaded by transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(
        FOLDER, dtype=torch.float32
    ).eval(), AutoTokenizer.from_pretrained(FOLDER)


def rendered(tokenizer: Any, user: str, opening: str = "") -> str:
    """Return a prompt in the chat template, with the given beginning of the answer."""
    prompt: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": user}], tokenize=False, add_generation_prompt=True
    )
    return prompt + opening


def write(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str] | Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    batch: int = 200,
    around: Callable[[slice], AbstractContextManager[None]] | None = None,
) -> list[str]:
    """One story for each rendered prompt (or its tokens), as `torch.manual_seed` has it.

    `around` is called with the part of the prompts that make a batch, padded on the left, and may patch it.
    """
    import torch

    ids = [
        list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        if isinstance(prompt, str)
        else list(prompt)
        for prompt in prompts
    ]
    stories: list[str] = []
    for start in range(0, len(ids), batch):
        part = slice(start, min(start + batch, len(ids)))
        padded = tokenizer.pad({"input_ids": ids[part]}, return_tensors="pt")
        width = padded["input_ids"].shape[1]
        with torch.inference_mode(), around(part) if around else nullcontext():
            generated = model.generate(
                **padded, do_sample=True, temperature=temperature, top_k=0, max_new_tokens=160
            )
        stories += tokenizer.batch_decode(generated[:, width:], skip_special_tokens=True)
    return stories
