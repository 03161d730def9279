"""The page of results in Markdown, written from the JSON file alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from perf._parts import PARTS

__all__ = ["page"]

HEAD: Final = """# Performance

All figures were measured on one machine, described below, by one command that you can repeat. Only this \
command writes the page. Absolute
figures hold for that machine only. Within a table, the systems were measured alternately in the same run, \
so their ratios are comparable.
Peers are the other tools we compare with; they are installed in separate environments, in the versions \
listed.

```
python -m perf.peers
python -m perf --page docs/performance.md
```
"""
MET: Final = {True: "yes", False: "**no**", None: "not measured"}
QUICK: Final = (
    "\n**These figures come from a quick run with tiny sizes that only checks that everything works. They "
    "do not measure speed.**\n"
)


def page(report: Mapping[str, Any]) -> str:
    """Return the page."""
    parts = [HEAD, QUICK if report["quick"] else "", f"\nWritten {report['written']}.\n"]
    parts += [
        "\n## Machine and versions\n",
        _markdown([{"what": name, "value": value} for name, value in report["machine"].items()]),
    ]
    parts += ["\n## Peers\n", _markdown(_peers(report))]
    promised = [row for part in report["parts"].values() for row in part.get("targets", [])]
    if promised:
        parts += ["\n## Performance targets\n", _markdown([_verdict(row) for row in promised])]
    for name, part in report["parts"].items():
        parts += _part(name, part)
    return "\n".join(line.rstrip() for line in "".join(parts).splitlines()) + "\n"


def _peers(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = [{"peer": name, "version": version} for name, version in report["peers"].items()]
    return rows + [
        {"peer": name, "version": f"**not measured**: {reason}"} for name, reason in report["missing"].items()
    ]


def _verdict(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "target": row["target"],
        "at least": row["at least"],
        "measured": row["measured"],
        "met": MET[row["met"]],
    }


def _part(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    module = PARTS.get(name)
    yield f"\n## {module.title if module else name.capitalize()}\n"
    if module:
        yield f"\n{module.about}\n"
    if "written" in part:
        yield f"\nMeasured {part['written']}, in {part['seconds']:,.0f} s.\n"
    if "failed" in part:
        yield f"\n**This part failed:** {_cell(part['failed'])}\n"
    for peer, reason in part.get("missing", {}).items():
        yield f"\n**{peer} was not measured here:** {_cell(reason)}\n"
    for table in part.get("tables", []):
        yield f"\n### {table['title']}\n"
        # Rows with other columns belong in another table.
        for cells in dict.fromkeys(tuple(row) for row in table["rows"]):
            yield _markdown([row for row in table["rows"] if tuple(row) == cells])
        if table["note"]:
            yield f"\n{table['note']}\n"


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "\nNone.\n"
    names = list(rows[0])
    numeric = {
        name: all(
            isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows
        )
        for name in names
    }
    head = "| " + " | ".join(map(_cell, names)) + " |"
    rule = "| " + " | ".join("---:" if numeric[name] else "---" for name in names) + " |"
    return "\n".join(
        ["", head, rule, *("| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows), ""]
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
