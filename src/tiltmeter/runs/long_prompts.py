"""Requests that are longer than the context of a server: another attempt cannot help, so the cause and the remedy are named."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import polars as pl
from polars import Series, col

from tiltmeter.errors import ProviderError
from tiltmeter.runs.folder import RunFolder
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
    """Numbers of tokens of a prompt and of the answer that was asked for, and of the context that holds both."""

    prompt: int
    answer: int
    context: int


def too_long(folder: RunFolder, study: Study, model: str, *, without: Collection[str] = ()) -> list[str]:
    """Return a sentence about the prompts of a run that exceed the context of a model.

    None if there are no such prompts.

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
    attempts = (
        folder.scan("design").group_by("part").agg(pl.col("repetitions").cast(pl.Int64).sum()).collect()
    )
    of_part = dict(attempts.iter_rows())
    counts = failed.group_by("part", maintain_order=True).len().iter_rows()
    parts = [f"{part} ({count:,} of {of_part[part]:,} requests)" for part, count in counts]
    several = len(study.parts) > 1
    names = ", ".join(failed["part"].unique(maintain_order=True))
    leave_out = (
        f", or leave {names} out (list the other {study.noun} as `parts` in a study file)" if several else ""
    )
    return [f"{model}: {too_long_words(failed['error'], 'prompts of ' + ', '.join(parts))}{leave_out}"]


def too_long_words(errors: Series, which: str) -> str:
    """Return the cause and the remedy for prompts that are too long, with the server's numbers of tokens or, without them, its words.

    Parameters
    ----------
    errors
        Error messages, each with its kind.
    which
        The prompts that are too long, in words.
    """
    limits, requested = _numbers(errors, _LIMITS), _numbers(errors, _REQUESTED)
    context = f"the server's context{f' of {max(limits):,} tokens' if limits else ''}"
    sizes = [
        size for message in errors if (size := _size(message)) is not None and size.prompt < size.context
    ]
    if sizes and len(sizes) == len(errors):
        return _too_long_together(sizes, which, context)
    partly = f", {len(sizes):,} of {len(errors):,} only together with the answer" if sizes else ""
    longest = f" (the longest request has {max(requested):,})" if requested else ""
    if (
        not limits and not requested
    ):  # without numbers, the words of the server tell whether it means what is concluded here
        longest = f" ({errors[-1].removeprefix(f'{CONTEXT}: ')})"
    needed = f" of at least {max(requested):,} tokens" if requested else ""
    return (
        f"{which} are longer than {context}{partly}{longest}, so the same command cannot succeed: use a model or a server with a "
        f"longer context{needed}"
    )


def _too_long_together(sizes: Sequence[_Size], which: str, context: str) -> str:
    """Return the cause and the remedy for prompts that fit into the context without the answer that was asked for."""
    longest = max(sizes, key=lambda size: size.prompt)
    return (
        f"{which}, together with the answers of up to {longest.answer:,} tokens that were asked for, are longer than {context} "
        f"(the longest prompt has {longest.prompt:,}), so the same command cannot succeed: set --max-tokens to at most "
        f"{longest.context - longest.prompt:,}, or use a model or a server with a longer context of at least "
        f"{longest.prompt + longest.answer:,} tokens"
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
        numbers += [_count(match[1]) for match in matches[:1]]
    return numbers
