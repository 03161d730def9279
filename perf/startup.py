"""How long the command takes before anything happens, as ratios to a bare Python start in the same run. Prints JSON."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

COMMANDS = {"help": ["--help"], "list": ["list"], "list probes": ["list", "probes"], "list datasets": ["list", "datasets"]}
ROUNDS = 9


def seconds(arguments: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    times: dict[str, list[float]] = {"python": [], **{name: [] for name in COMMANDS}}
    for _ in range(ROUNDS):
        times["python"].append(seconds([sys.executable, "-c", "pass"]))
        for name, arguments in COMMANDS.items():
            times[name].append(seconds([sys.executable, "-m", "tiltmeter.cli", *arguments]))
    median = {name: statistics.median(values) for name, values in times.items()}
    print(
        json.dumps(
            {name: {"seconds": round(value, 3), "times_bare_python": round(value / median["python"], 1)} for name, value in median.items()}
        )
    )


if __name__ == "__main__":
    main()
