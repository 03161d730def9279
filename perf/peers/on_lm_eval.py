"""The LM Evaluation Harness: the prompts as a task, results and samples saved by its own tracker."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

TASK = {
    "task": "letters",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "{{target}}",
    "generation_kwargs": {"until": ["<never>"], "max_gen_toks": 300, "temperature": 1.0, "do_sample": True},
    "filter_list": [
        {
            "name": "letter",
            "filter": [{"function": "regex", "regex_pattern": "\\(([abc])\\)"}, {"function": "take_first"}],
        },
    ],
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}


def run(arguments: dict[str, Any]) -> dict[str, Any]:
    folder = Path(arguments["folder"])
    task = TASK | {
        "dataset_kwargs": {"data_files": {"test": arguments["prompts"]}, "cache_dir": str(folder / "cache")}
    }
    (folder / "letters.yaml").write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML
    begun = time.perf_counter()
    tracker = EvaluationTracker(output_path=str(folder / "results"))
    evaluation = simple_evaluate(
        model="local-chat-completions",
        model_args={
            "model": "m",
            "base_url": f"{arguments['url']}/chat/completions",
            "num_concurrent": arguments["connections"],
            "max_retries": 1,
            "tokenized_requests": False,
        },
        tasks=["letters"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        apply_chat_template=True,
        log_samples=True,
        evaluation_tracker=tracker,
    )
    samples = evaluation.pop("samples")
    tracker.save_results_aggregated(results=evaluation, samples=samples)
    tracker.save_results_samples(task_name="letters", samples=samples["letters"])
    seconds = time.perf_counter() - begun
    count = len(samples["letters"])
    return {
        "answers": count,
        "right": round(evaluation["results"]["letters"]["exact_match,letter"] * count),
        "work_s": seconds,
    }


def main() -> None:
    logging.disable(logging.WARNING)
    print(json.dumps(run(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
