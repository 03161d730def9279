"""A model of this process that writes its prompts to the file that ASKED names."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


async def answer(messages: list[dict[str, str]]) -> str:
    """Answer with the prompt."""
    prompt = messages[-1]["content"]
    with Path(os.environ["ASKED"]).open("a") as file:
        file.write(f"{prompt}\n")
    await asyncio.sleep(0.005)
    return f"answer to {prompt}"
