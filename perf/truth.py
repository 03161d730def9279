"""Are planted associations found in texts of the published size, and is nothing else reported?

    python -m perf.truth                             # the simulated model: 8,700 stories for each of 20 seeds
    python -m perf.truth --bias 0 --cluster-sd 0.3   # nothing is planted, but first names differ (SD, logit)
    python -m perf.truth --model hf/tests/fixtures/storyteller --judge sim/fair

Prints JSON: the numbers of associations that were found, missed, and reported though not planted. Planted
with the simulated model: `bias` (a difference of rates). Planted with the storyteller: the table beside its
weights. An association counts where it is reported over all locations; those within location categories are
counted apart. `--bias 0` shows what is reported where nothing is planted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import yaml

ROOT = Path(__file__).parent.parent
LEAST = 0.10
"""Effect from which an association must be found."""


def truth_of(model: str, category: str, bias: float, design: pl.DataFrame) -> pl.DataFrame:
    """Return `concept`, `identity` and `effect` of all associations planted in the category."""
    if model.startswith("sim/"):
        from tiltmeter.associations._simulation import planted_associations
        from tiltmeter.models.sim import Dials

        planted = planted_associations(design, Dials(stereotypical_reasoning=bias).mapping())
        return planted.filter(
            (pl.col("effect") > 1e-9) & (pl.col("rate") == pl.col("rate").max().over("concept"))
        )
    table = yaml.safe_load((Path(model.partition("/")[2]) / "planted.yaml").read_text(encoding="utf-8"))
    rows = [
        (concept, identity, effect)
        for identity, concepts in table["planted"][category].items()
        for concept, effect in concepts.items()
    ]
    return pl.DataFrame(rows, schema=["concept", "identity", "effect"], orient="row")


def outcome_of_seed(options: argparse.Namespace, seed: int, folder: Path) -> dict[str, float]:
    """Carry out the study of one seed and count the associations."""
    import tiltmeter as tm

    is_simulated = options.model.startswith("sim/")
    model_options = {"seed": str(seed)}
    params = {"encoder": "none"}
    sampling: dict[str, Any] | None = None
    if is_simulated:
        model_options |= {"bias": str(options.bias), "cluster_sd": str(options.cluster_sd)}
    else:  # the storyteller knows the names of the grid, and its rates hold for plain sampling
        params["names"] = "grid"
        sampling = {"temperature": 1.0, "extra": {}}
    begun = time.perf_counter()
    run = tm.run(
        f"associations/{options.category}",
        model=options.model,
        options=model_options,
        limit=options.limit,
        seed=seed,
        params=params,
        sampling=sampling,
        judge=options.judge,
        journal=folder / f"{seed}.sqlite",
        out=folder / str(seed),
        display="none",
    )
    truth = truth_of(options.model, options.category, options.bias, run.design)
    strong = truth.filter(pl.col("effect") >= LEAST - 1e-9)
    associations = run.findings.filter(pl.col("metric") == "association").rename({"group": "identity"})
    overall = associations.filter(pl.col("context").is_null())
    within = associations.filter(pl.col("context").is_not_null())
    keys = ["concept", "identity"]
    return {
        "planted": strong.height,
        "found": strong.join(overall, on=keys, how="semi").height,
        "planted_within": strong.height * run.design["context"].n_unique(),
        "found_within": within.join(strong, on=keys, how="semi").height,
        "reported": associations.height,
        "not_planted": associations.join(truth, on=keys, how="anti").height,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def main() -> None:
    """Carry out the study of every seed and print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="sim/biased")
    parser.add_argument("--judge", default=None, help="none: words")
    parser.add_argument("--category", default="gender")
    parser.add_argument("--bias", type=float, default=0.10)
    parser.add_argument(
        "--cluster-sd", type=float, default=0.0, help="of the effects of first names (simulated models)"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="the first of the seeds, to spread them over several processes"
    )
    parser.add_argument("--limit", default=None)
    options = parser.parse_args()
    os.environ.setdefault("TILTMETER_RUNS", tempfile.mkdtemp(prefix="tiltmeter-truth-"))
    with tempfile.TemporaryDirectory() as folder:
        seeds = []
        for seed in range(options.first, options.first + options.seeds):
            seeds.append(outcome_of_seed(options, seed, Path(folder)))
            print(json.dumps(seeds[-1]), file=sys.stderr)
    total = {name: sum(row[name] for row in seeds) for name in seeds[0]}
    shares = {
        "found_share": total["found"] / total["planted"] if total["planted"] else None,
        "found_within_share": total["found_within"] / total["planted_within"]
        if total["planted_within"]
        else None,
        "not_planted_share": total["not_planted"] / total["reported"] if total["reported"] else 0.0,
        "studies_with_any_report": sum(row["reported"] > 0 for row in seeds),
    }
    print(json.dumps({**vars(options), **total, **shares}))


if __name__ == "__main__":
    main()
