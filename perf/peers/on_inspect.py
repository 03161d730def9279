"""Inspect AI: the prompts as an eval with its own scorer and log, or a log alone (`"log": N samples`).

Settings are the fastest that its users can choose: no display, no scores while it runs, no realtime log, a
large log buffer, and no logged calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["LOCAL_API_KEY"] = "none"

from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalSample,
    EvalSpec,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import pattern
from inspect_ai.solver import generate


def run(task: dict[str, Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    dataset = json_dataset(task["prompts"], FieldSpec(input="prompt", target="target"))
    log = evaluate(
        Task(dataset=dataset, solver=generate(), scorer=pattern(r"\(([abc])\)")),
        model="openai-api/local/m",
        model_base_url=task["url"],
        log_dir=str(Path(task["folder"], "logs")),
        max_connections=task["connections"],
        max_samples=task["connections"],
        temperature=1.0,
        max_tokens=300,
        display="none",
        score_display=False,
        log_realtime=False,
        log_model_api=False,
        log_buffer=1000,
    )[0]
    seconds = time.perf_counter() - begun
    assert log.status == "success"
    assert log.results is not None
    shares = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    count = log.results.completed_samples
    return {"answers": count, "right": round(shares["accuracy"] * count), "work_s": seconds}


def write_log(task: dict[str, Any]) -> dict[str, Any]:
    """Write a log of `task["log"]` finished samples and read it, by the library's own functions."""
    samples = [
        EvalSample(
            id=number,
            epoch=1,
            input=task["prompt"].format(number),
            target="a",
            output=ModelOutput.from_content(model="m", content=task["answer"]),
        )
        for number in range(task["log"])
    ]
    spec = EvalSpec(
        created="2025-01-01T00:00:00+00:00", task="t", dataset=EvalDataset(), model="m", config=EvalConfig()
    )
    path = str(Path(task["folder"], "log.eval"))
    begun = time.perf_counter()
    write_eval_log(EvalLog(eval=spec, status="success", samples=samples), path)
    written = time.perf_counter()
    logged = read_eval_log(path).samples or []
    read = time.perf_counter()
    assert len(logged) == len(samples)
    return {"answers": len(logged), "write_s": written - begun, "read_s": read - written}


def main() -> None:
    task = json.loads(sys.argv[1])
    print(json.dumps(write_log(task) if "log" in task else run(task)))


if __name__ == "__main__":
    main()
