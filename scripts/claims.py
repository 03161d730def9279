"""Write the figures of the studies of truth into docs/statistics.md, or check that they agree (`--check`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from generated import write_or_check
from perf.studies import records


def table() -> str:
    """Return the table."""
    lines = ["| study | figure | cases | lowest | highest | promised |", "|---|---|---|---|---|---|"]
    for row in records.summary():
        promised = "–" if (row.low, row.high) == (0, 1) else f"{row.low:.3g} to {row.high:.3g}"
        lines.append(
            f"| `{row.study}` | {row.claim} | {row.cases} | {row.lowest:.3f} | {row.highest:.3f} | "
            f"{promised} |"
        )
    questions = [
        f"- `{name}` ({record['date']}): {record['question']}" for name, record in records.recorded().items()
    ]
    return "\n" + "\n".join([*questions, "", *lines]) + "\n"


def main() -> int:
    """Check or write; return the exit status."""
    return write_or_check(
        "statistics.md",
        "claims.py",
        table(),
        "has other figures than perf/studies/recorded.yaml: run scripts/claims.py",
    )


if __name__ == "__main__":
    sys.exit(main())
