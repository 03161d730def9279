"""The SDK of OpenAI in a loop: every answer is written as a line of JSON, and nothing is analysed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI


async def ask_all(task: dict[str, Any], samples: list[dict[str, str]]) -> int:
    waiting, correct = iter(samples), 0
    with Path(task["folder"], "answers.jsonl").open("w", encoding="utf-8") as file:
        async with AsyncOpenAI(base_url=task["url"], api_key="none", max_retries=0) as client:

            async def work() -> None:
                nonlocal correct
                for sample in waiting:
                    answer = await client.chat.completions.create(
                        model="m",
                        messages=[{"role": "user", "content": sample["prompt"]}],
                        temperature=1.0,
                        max_tokens=300,
                    )
                    text = answer.choices[0].message.content or ""
                    file.write(json.dumps({"prompt": sample["prompt"], "answer": text}) + "\n")
                    letters = re.findall(r"\(([abc])\)", text)
                    correct += letters == [sample["target"]]

            await asyncio.gather(*(work() for _ in range(task["connections"])))
    return correct


def main() -> None:
    task = json.loads(sys.argv[1])
    samples = [json.loads(line) for line in Path(task["prompts"]).read_text(encoding="utf-8").splitlines()]
    begun = time.perf_counter()
    correct = asyncio.run(ask_all(task, samples))
    print(json.dumps({"answers": len(samples), "right": correct, "work_s": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
