"""Prompts that are longer than the context of a server: another attempt cannot help, so the cause and the remedy are named."""

from __future__ import annotations

import re

import polars as pl
from polars import Series, col

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


def too_long(folder: RunFolder, study: Study, model: str) -> list[str]:
    """Return a sentence about the prompts of a run that exceed the context of a model; none if there are no such prompts."""
    design = folder.scan("design").select("prompt_id", "part")
    responses = folder.scan("responses").filter(status="failed", model=model).select("prompt_id", "error")
    is_long = col.error.str.starts_with(f"{CONTEXT}:")
    failed = responses.filter(is_long).join(design, on="prompt_id", maintain_order="left").collect()
    if failed.is_empty():
        return []
    attempts = folder.scan("design").group_by("part").agg(pl.col("repetitions").cast(pl.Int64).sum()).collect()
    of_part = dict(attempts.iter_rows())
    counts = failed.group_by("part", maintain_order=True).len().iter_rows()
    parts = [f"{part} ({count:,} of {of_part[part]:,} requests)" for part, count in counts]
    several = len(study.parts) > 1
    names = ", ".join(failed["part"].unique(maintain_order=True))
    leave_out = f", or leave {names} out (list the other {study.noun} as `parts` in a study file)" if several else ""
    return [f"{model}: {too_long_words(failed['error'], 'prompts of ' + ', '.join(parts))}{leave_out}"]


def too_long_words(errors: Series, which: str) -> str:
    """Return the cause and the remedy for prompts that are too long, with the numbers of tokens if the server says them.

    Parameters
    ----------
    errors
        Error messages, each with its kind.
    which
        The prompts that are too long, in words.
    """
    limits, requested = _numbers(errors, _LIMITS), _numbers(errors, _REQUESTED)
    size = f" of {max(limits):,} tokens" if limits else ""
    longest = f" (the longest request has {max(requested):,})" if requested else ""
    needed = f" of at least {max(requested):,} tokens" if requested else ""
    return (
        f"{which} are longer than the server's context{size}{longest}, so the same command cannot succeed: use a model or a server with a "
        f"longer context{needed}"
    )


def _numbers(errors: Series, patterns: tuple[str, ...]) -> list[int]:
    """Return the number that the first matching pattern finds in each message."""
    numbers = []
    for message in errors.unique():
        matches = [match for pattern in patterns if (match := re.search(pattern, message))]
        numbers += [int(match[1].replace(",", "")) for match in matches[:1]]
    return numbers
