"""Carry out studies of truth and record their outcomes.

    TILTMETER_DATA=FOLDER python -m perf.studies            # all of them, on all cores
    TILTMETER_DATA=FOLDER python -m perf.studies NAME ...   # some of them
    python -m perf.studies --stale                          # name those to carry out again
    python -m perf.studies NAME --progress FILE             # resume an interrupted study
    python -m perf claims                                   # print what is recorded

Each study prints its claims: a figure and the range that it must lie in. The status is 1 if a claim does not
hold.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from perf.studies import records
from perf.studies.modules import MODULES, claims_of_case, study_named
from perf.studies.progress import Progress
from perf.studies.study import Claim


def outcome(name: str, pool: ProcessPoolExecutor, progress: Progress) -> dict[str, Any]:
    """Carry out a study, print its claims and return its record."""
    study = study_named(name)
    # Of the code that the processes import, even if the files change in the meantime.
    fingerprint = records.fingerprint(name)
    print(f"{name}: {study.QUESTION}", flush=True)
    finished = progress.finished(fingerprint)
    tasks = {case: pool.submit(claims_of_case, name, case) for case in study.CASES if case not in finished}
    by_case: dict[str, list[Claim]] = {}
    seconds = 0.0
    for case in study.CASES:
        if case in finished:
            claims, duration = finished[case]
        else:
            claims, duration = tasks[case].result()
            progress.add(fingerprint, case, claims, duration)
        by_case[case] = claims
        seconds += duration
        _print_claims(case, claims)
    overall = getattr(study, "overall", None)
    if overall is not None:
        by_case[records.TOGETHER] = overall(by_case)
        _print_claims(records.TOGETHER, by_case[records.TOGETHER])
    return {
        "question": study.QUESTION,
        "date": datetime.now(UTC).date().isoformat(),
        "cpu_seconds": round(seconds),
        "holds": all(claim.holds for claims in by_case.values() for claim in claims),
        "fingerprint": fingerprint,
        "figures": {
            case: {claim.name: _figure(claim) for claim in claims} for case, claims in by_case.items()
        },
    }


def _figure(claim: Claim) -> list[float]:
    """Return the observed value and the promised range."""
    return [round(float(number), 4) for number in (claim.observed, claim.low, claim.high)]


def _print_claims(case: str, claims: Sequence[Claim]) -> None:
    for claim in claims:
        verdict = "holds" if claim.holds else "DOES NOT HOLD"
        print(
            f"  {case}, {claim.name}: {claim.observed:.4g} ({claim.low:g} to {claim.high:g}) {verdict}",
            flush=True,
        )


def main() -> int:
    """Carry out the studies that are named, or name those that are stale."""
    parser = argparse.ArgumentParser(
        prog="python -m perf.studies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODULES)} [default: all]")
    parser.add_argument(
        "--stale",
        action="store_true",
        help="name the studies whose record does not speak of the present code",
    )
    parser.add_argument(
        "--progress",
        type=Path,
        metavar="FILE",
        help="keep finished cases in this file, and do not carry them out again",
    )
    options = parser.parse_args()
    if options.stale:
        sentences = records.complaints()
        for sentence in sentences:
            print(
                f"study {sentence}; carry it out again: python -m perf.studies {sentence.partition(':')[0]}"
            )
        return 0
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"no study is called {unknown[0]}; there are {', '.join(MODULES)}")
    if "TILTMETER_DATA" not in os.environ:
        parser.error("set TILTMETER_DATA to the folder of the probes' data")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    outcomes = records.recorded()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for name in options.names or MODULES:
            outcomes[name] = outcome(name, pool, Progress(options.progress))
            records.write(outcomes)
    return 0 if all(outcomes[name]["holds"] for name in options.names or MODULES) else 1


if __name__ == "__main__":
    sys.exit(main())
