"""The start-up time of the command, relative to that of bare Python in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from perf._tools import options, table, tell

COMMANDS = {
    "help": ["--help"],
    "list studies": ["list", "studies"],
    "list probes": ["list", "probes"],
    "list datasets": ["list", "datasets"],
}
ROUNDS = 9


def seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    arguments = options(__doc__).parse_args()
    times: dict[str, list[float]] = {"python": [], **{name: [] for name in COMMANDS}}
    for _ in range(1 if arguments.quick else ROUNDS):
        times["python"].append(seconds([sys.executable, "-c", "pass"]))
        for name, command in COMMANDS.items():
            times[name].append(seconds([sys.executable, "-m", "tiltmeter", *command]))
    median = {name: statistics.median(values) for name, values in times.items()}
    names = {
        "python": "bare Python",
        **{name: f"tiltmeter {' '.join(command)}" for name, command in COMMANDS.items()},
    }
    rows = [
        {"command": names[name], "seconds": value, "relative to bare Python": value / median["python"]}
        for name, value in median.items()
    ]
    tell([table("Seconds from start to end", rows)])


if __name__ == "__main__":
    main()
