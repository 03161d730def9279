"""Does discovery find what is planted, with texts, at the published size? Prints JSON: found, missed, and reported though not planted.

    python -m perf.truth                       # the simulated model: 8,700 stories for each of 20 seeds
    python -m perf.truth --bias 0 --cluster-sd 0.3   # nothing is planted, but first names differ (SD on the
    logit of each concept) python -m perf.truth --model hf/tests/fixtures/storyteller --judge sim/fair

Planted with the simulated model: `bias` (a difference of rates). Planted with the storyteller: the table
beside its weights. An association counts where it is reported over all locations; those within location
categories are counted apart. `--bias 0` shows what is reported where nothing is planted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import yaml

ROOT = Path(__file__).parent.parent
LEAST = 0.10
"""Effect from which an association must be found."""


def truth_of(model: str, category: str, bias: float, design: pl.DataFrame) -> pl.DataFrame:
    """`concept`, `identity`, `effect` of everything planted on an identity of the category."""
    if model.startswith("sim/"):
        from tiltmeter.associations.simulation import planted_associations
        from tiltmeter.models.sim import Dials

        planted = planted_associations(design, Dials(stereotypical_reasoning=bias).mapping())
        return planted.filter(
            (pl.col("effect") > 1e-9) & (pl.col("rate") == pl.col("rate").max().over("concept"))
        )
    table = yaml.safe_load((Path(model.partition("/")[2]) / "planted.yaml").read_text(encoding="utf-8"))
    rows = [
        (concept, who, effect)
        for who, concepts in table["planted"][category].items()
        for concept, effect in concepts.items()
    ]
    return pl.DataFrame(rows, schema=["concept", "identity", "effect"], orient="row")


def one(options: argparse.Namespace, seed: int, folder: Path) -> dict[str, float]:
    """One study of one seed."""
    import tiltmeter as tm

    is_simulated = options.model.startswith("sim/")
    begun = time.perf_counter()
    run = tm.run(
        f"associations/{options.category}",
        model=options.model,
        options={"seed": str(seed)}
        | ({"bias": str(options.bias), "cluster_sd": str(options.cluster_sd)} if is_simulated else {}),
        limit=options.limit,
        seed=seed,
        params={"encoder": "none"}
        if is_simulated
        else {"encoder": "none", "names": "grid"},  # the storyteller knows the names of the grid
        sampling=None
        if is_simulated
        else {"temperature": 1.0, "extra": {}},  # the storyteller's rates hold for plain sampling
        judge=options.judge,
        journal=folder / f"{seed}.sqlite",
        out=folder / str(seed),
        display="none",
    )
    truth = truth_of(options.model, options.category, options.bias, run.design)
    strong = truth.filter(pl.col("effect") >= LEAST - 1e-9)
    associations = run.findings.filter(pl.col("metric") == "association").rename({"group": "identity"})
    overall, within = (
        associations.filter(pl.col("context").is_null()),
        associations.filter(pl.col("context").is_not_null()),
    )
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
    """Run every seed and print what came out."""
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
            seeds.append(one(options, seed, Path(folder)))
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
