"""Tiltmeter, as its users call it from Python, with the same output as the peers."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tiltmeter as tm
import tiltmeter.api  # all imports of a run, which are not measured
import tiltmeter.models._http
import tiltmeter.probes._genderbench.bbq
import tiltmeter.runs._study_run
from tiltmeter.engine import Limits


def run(task: dict[str, Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    done = tm.run(
        "genderbench/bbq",
        model="vllm/m",
        base_url=task["url"],
        definition="genderbench",
        limit=task["limit"],
        limits=Limits(max_connections=task["connections"]),
        journal=f"{task['folder']}/journal.sqlite",
        out=f"{task['folder']}/run",
        display="none",
    )
    findings = done.findings
    seconds = time.perf_counter() - begun
    both = done.measures.select("prompt_id", "label").join(
        done.design.select("prompt_id", "logical_answer"), on="prompt_id"
    )
    took = done.about["seconds"]
    stages = {
        "create": took["design"],
        "generate": took["generate"] + took["collect"],
        "evaluate": took["measures"],
        "analyse": took["findings"] + took["examples"],
    }
    rows = findings.select("metric", "low", "high").iter_rows()
    return {
        "answers": done.responses.height,
        "right": int((both["label"] == both["logical_answer"]).sum()),
        "work_s": seconds,
        "stages": stages,
        "metrics": {metric: [low, high] for metric, low, high in rows},
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
