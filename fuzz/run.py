"""Run the fuzzer for long, by hand.

`python fuzz/run.py [--seconds N] [--seed N] [TARGET...]` prints one JSON line a target.

Coverage-guided (atheris), each target in a process of its own, on the readers of `tests/support/fuzzing`;
half of the inputs are damaged as what they are (values of JSON, columns of tables), the others byte by byte.
A line gives the seed, the executions, and each distinct finding with the input that shows it. The seed is
random unless it is given; with the same seed, the same inputs are tried in the same order. Exit status 1 if
there are findings. The tests in `tests/fuzz` try a few fixed inputs of each target.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from secrets import randbelow
from typing import Any

ROOT = Path(__file__).parent.parent
_SLACK = 120
"""Seconds a process may take beyond its time: a single input may be slow, and importing takes some."""


def main() -> int:
    """Run the targets named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the inputs; 0: a random one, which is printed"
    )
    parser.add_argument("--list", action="store_true", help="name the targets and stop")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="names, or the beginnings of names")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    if options.child:
        _fuzz(options.targets[0], Path(options.child), options.seconds, options.seed)
        return 0
    from support.fuzzing import TARGETS

    chosen = [name for name in TARGETS if not options.targets or name.startswith(tuple(options.targets))]
    if not chosen:
        print(f"there is no such target; there are: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    has_findings = False
    for name in chosen:
        if options.list:
            print(name)
            continue
        line = _one(name, options.seconds, options.seed or randbelow(2**31) + 1)
        has_findings = has_findings or bool(line["findings"])
        print(json.dumps(line), flush=True)
    return int(has_findings)


def _one(name: str, seconds: int, seed: int) -> dict[str, Any]:
    """What came of one target, run in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tiltmeter-fuzz-") as folder:
        command = [
            sys.executable,
            __file__,
            "--seconds",
            str(seconds),
            "--seed",
            str(seed),
            "--child",
            folder,
            name,
        ]
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("TILTMETER_") and not key.endswith("_API_KEY")
        }
        environment = inherited | {
            "TILTMETER_OFFLINE": "1",
            "TILTMETER_RUNS": str(Path(folder) / "runs"),
            "OMP_NUM_THREADS": "1",
        }
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, timeout=seconds + _SLACK, check=False
            )
        except subprocess.TimeoutExpired:
            endless = {
                "what": f"an input was still being read {_SLACK} s after the end",
                "where": name,
                "input": _of_crash(Path(folder)),
            }
            return {
                "target": name,
                "seconds": seconds,
                "seed": seed,
                "executions": None,
                "findings": [endless],
            }
        errors = ended.stderr.decode(errors="replace")
        log = Path(folder) / "findings.jsonl"
        findings = (
            [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            if log.is_file()
            else []
        )
        executed = re.search(r"number_of_executed_units: (\d+)", errors)
        if executed is None:  # libFuzzer ended itself: an input took too long or too much memory
            last = next(
                (line for line in errors.splitlines() if "ERROR" in line), f"exit status {ended.returncode}"
            )
            findings.append({"what": last, "where": name, "input": _of_crash(Path(folder))})
        executions = int(executed[1]) if executed else None
        return {
            "target": name,
            "seconds": seconds,
            "seed": seed,
            "executions": executions,
            "findings": findings,
        }


def _of_crash(folder: Path) -> str | None:
    """The input that was read when the process ended."""
    inputs = [path.read_bytes() for path in (*folder.glob("left-*"), folder / "current") if path.is_file()]
    return base64.b64encode(inputs[0]).decode() if inputs else None


def _fuzz(name: str, folder: Path, seconds: int, chosen_seed: int) -> None:
    """The process of one target; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["tiltmeter"]):
        from support.fuzzing import TARGETS, examine, mutated

        target = TARGETS[name]
        seeds = list(target.seeds())
        with tempfile.TemporaryDirectory() as place:  # what is imported on use is instrumented, too
            for seed in seeds:
                examine(target, seed, Path(tempfile.mkdtemp(dir=place)))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)
    reported: set[tuple[str, str]] = set()

    def one(data: bytes) -> None:
        (folder / "current").write_bytes(data)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            finding = examine(target, data, Path(place))
        if (
            finding is not None
            and (key := (finding.where, re.sub(r"[\d'\"].*", "", finding.what))) not in reported
        ):
            reported.add(key)
            line = {"what": finding.what, "where": finding.where, "input": base64.b64encode(data).decode()}
            with (folder / "findings.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")

    def damage(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            changed: bytes = atheris.Mutate(data, longest)
            return changed
        return mutated(data if rng.random() < 0.7 else rng.choice(seeds), target.kind, rng)[:longest]

    longest = max(4096, 4 * max(map(len, seeds)))
    atexit.register(os._exit, 0)  # after a panic of Polars the interpreter may not get to its end
    flags = [
        f"-max_total_time={seconds}",
        f"-seed={chosen_seed}",
        f"-max_len={longest}",
        "-print_final_stats=1",
        "-timeout=30",
        "-rss_limit_mb=4096",
    ]
    atheris.Setup(
        [sys.argv[0], *flags, f"-artifact_prefix={folder}/left-", str(corpus)], one, custom_mutator=damage
    )
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
