"""A model of this process that writes down what it was asked, in the file that ASKED names."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


async def answer(messages: list[dict[str, str]]) -> str:
    """The prompt, repeated."""
    prompt = messages[-1]["content"]
    with Path(os.environ["ASKED"]).open("a") as file:
        file.write(f"{prompt}\n")
    await asyncio.sleep(0.005)
    return f"answer to {prompt}"
