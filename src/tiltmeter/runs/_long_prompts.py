"""Requests that are longer than the context of a server: their cause and remedy."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import polars as pl
from polars import Series, col

from tiltmeter.errors import ProviderError
from tiltmeter.runs._folder import RunFolder
from tiltmeter.study import Study

CONTEXT = "context_length"
"""Kind of the failure (see `tiltmeter.models.ModelError`)."""
_LIMITS = (
    r"maximum context length is ([\d,]+)",  # OpenAI, vLLM
    r"context (?:size|length|window|limit) \(([\d,]+)",  # llama.cpp, SGLang
    r"> ([\d,]+)(?: maximum|\b)",  # Anthropic
    r"must be <= ([\d,]+)",  # Text Generation Inference
    r"accepts ([\d,]+) including the answer",  # models in this process
)
"""Where servers say how many tokens their context holds; the first match counts."""
_REQUESTED = (
    r"you requested ([\d,]+) tokens",
    r"resulted in ([\d,]+) tokens",
    r"has ([\d,]+) (?:input )?tokens",
    r"(?:request|input) \(([\d,]+) tokens",
    r"too long: ([\d,]+) tokens",
    r"limit: ([\d,]+) \+",
    r"Given: ([\d,]+)",
)
"""Where servers say how many tokens a request has."""
_WITH_ANSWER = (
    r"\(([\d,]+) in (?:the messages|your prompt)[,;] ([\d,]+) (?:in|for) the completion\)",  # OpenAI, vLLM
    r"too large: (?P<answer>[\d,]+)\..* has (?P<prompt>[\d,]+) input tokens",  # later versions of vLLM
    r"limit: ([\d,]+) \+ ([\d,]+)",  # Anthropic
    r"Given: ([\d,]+) `inputs` tokens and ([\d,]+) `max_new_tokens`",  # Text Generation Inference
)
"""Where servers say how many tokens the prompt has, and how many were asked for as an answer."""


class PromptsTooLong(ProviderError):
    """No prompt of a model fits into its context, so that the same command cannot succeed."""


class _Size(NamedTuple):
    """Numbers of tokens of a prompt, of the requested answer, and of the context that holds both."""

    prompt: int
    answer: int
    context: int


def too_long(folder: RunFolder, study: Study, model: str, *, without: Collection[str] = ()) -> list[str]:
    """Return a sentence about prompts of a run that exceed the context of a model; none if there are no such.

    Parameters
    ----------
    without
        Parts that are left out.
    """
    design = folder.scan("design").filter(~col.part.is_in(list(without))).select("prompt_id", "part")
    responses = folder.scan("responses").filter(status="failed", model=model).select("prompt_id", "error")
    is_long = col.error.str.starts_with(f"{CONTEXT}:")
    failed = responses.filter(is_long).join(design, on="prompt_id", maintain_order="left").collect()
    if failed.is_empty():
        return []
    design = folder.scan("design").group_by("part").agg(pl.col("repetitions").cast(pl.Int64).sum())
    requests_of = dict(design.collect().iter_rows())
    counts = failed.group_by("part", maintain_order=True).len().iter_rows()
    parts = [f"{part} ({count:,} of {requests_of[part]:,} requests)" for part, count in counts]
    words = too_long_words(failed["error"], f"prompts of {', '.join(parts)}")
    if len(study.parts) > 1:
        names = ", ".join(failed["part"].unique(maintain_order=True))
        words += f", or leave {names} out (list the other {study.noun} as `parts` in a study file)"
    return [f"{model}: {words}"]


def too_long_words(errors: Series, prompts: str) -> str:
    """Return the cause and the remedy for prompts that are too long.

    They contain the server's numbers of tokens or, without them, its words.

    Parameters
    ----------
    errors
        Error messages, each with its kind.
    prompts
        The prompts that are too long, in words.
    """
    limits, requested = _numbers(errors, _LIMITS), _numbers(errors, _REQUESTED)
    context = "the server's context"
    if limits:
        context += f" of {max(limits):,} tokens"
    sizes = [size for message in errors if (size := _size(message)) is not None]
    together = [size for size in sizes if size.prompt < size.context]
    if together and len(together) == len(errors):
        return _too_long_together(together, prompts, context)
    partly = f", {len(together):,} of {len(errors):,} only together with the answer" if together else ""
    longest = needed = ""
    if requested:
        longest = f" (the longest request has {max(requested):,})"
        needed = f" of at least {max(requested):,} tokens"
    elif not limits:  # the words of the server tell whether it means what is concluded here
        longest = f" ({errors[-1].removeprefix(f'{CONTEXT}: ')})"
    return (
        f"{prompts} are longer than {context}{partly}{longest}, so the same command cannot succeed:"
        f" use a model or a server with a longer context{needed}"
    )


def _too_long_together(sizes: Sequence[_Size], prompts: str, context: str) -> str:
    """Return the cause and the remedy for prompts that fit into the context without the requested answer."""
    longest = max(sizes, key=lambda size: size.prompt)
    limit = longest.context - longest.prompt
    needed = longest.prompt + longest.answer
    return (
        f"{prompts}, together with the answers of up to {longest.answer:,} tokens that were asked for,"
        f" are longer than {context} (the longest prompt has {longest.prompt:,}), so the same command"
        f" cannot succeed: set --max-tokens to at most {limit:,}, or use a model or a server with a longer"
        f" context of at least {needed:,} tokens"
    )


def _size(message: str) -> _Size | None:
    """Return the numbers of tokens in a message; None if it does not name all of them."""
    limits = _numbers(Series([message]), _LIMITS)
    matches = [match for pattern in _WITH_ANSWER if (match := re.search(pattern, message))]
    if not limits or not matches:
        return None
    match = matches[0]
    named = match.groupdict() or dict(zip(("prompt", "answer"), match.groups(), strict=True))
    return _Size(_count(named["prompt"]), _count(named["answer"]), limits[0])


def _count(digits: str) -> int:
    """Return a number of tokens from its digits, such as "2,345"."""
    return int(digits.replace(",", ""))


def _numbers(errors: Series, patterns: tuple[str, ...]) -> list[int]:
    """Return the number that the first matching pattern finds in each message."""
    numbers = []
    for message in errors.unique():
        matches = [match for pattern in patterns if (match := re.search(pattern, message))]
        if matches:
            numbers.append(_count(matches[0][1]))
    return numbers
