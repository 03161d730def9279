"""Write what is stable into docs/stability.md, or check that the page and the code agree (`--check`)."""

from __future__ import annotations

import inspect
import sys

from generated import write_or_check

import tiltmeter
from tiltmeter import api, errors, schema
from tiltmeter.benchmarks.tables import BENCHMARK
from tiltmeter.engine.database import SCHEMA
from tiltmeter.runs.resolving import StudyDocument

_EXITS = {
    "OK": "done",
    "GATE": "a gate failed",
    "INPUT": "wrong usage or input",
    "INCOMPLETE": "incomplete",
    "PROVIDER": "no responses",
}


def names() -> list[str]:
    """One line for each public name, with its signature; of classes the public members."""
    lines = []
    for name in tiltmeter.__all__:
        thing = getattr(api, name, None) or getattr(tiltmeter, name)
        if inspect.isfunction(thing):
            lines.append(f"{name}{inspect.signature(thing)}")
        elif isinstance(thing, type) and not issubclass(thing, BaseException):
            members = [one for one in dir(thing) if not one.startswith("_")]
            fields = [one for one in getattr(thing, "__dataclass_fields__", {}) if not one.startswith("_")]
            lines.append(f"class {name}: {', '.join(dict.fromkeys([*fields, *members]))}")
        else:
            lines.append(f"{name}: {thing.__mro__[1].__name__}" if isinstance(thing, type) else name)
    return lines


def columns() -> list[str]:
    """One line for each table with columns that are always there."""
    tables = {
        "design": schema.DESIGN,
        "responses": schema.RESPONSES,
        "measures": schema.MEASURES,
        "findings": schema.FINDINGS,
    }
    tables |= {"grades": schema.GRADES, "examples": schema.EXAMPLES, "benchmark": BENCHMARK}
    return [
        f"{table}: {', '.join(f'{name} {kind}' for name, kind in schema_of_table.items())}"
        for table, schema_of_table in tables.items()
    ]


def formats() -> list[str]:
    """One line for each file and number a program may rely on."""
    codes = [f"exit {getattr(errors, f'EXIT_{name}')}: {meaning}" for name, meaning in _EXITS.items()]
    folder = (
        "run folder: study.yaml, run.json, design.parquet, responses.parquet, measures.parquet, "
        "findings.parquet, stages/*.parquet"
    )
    keys = f"study.yaml: {', '.join(StudyDocument.model_fields)}"
    return [*codes, folder, keys, f"journal: schema {SCHEMA}", f"caveats: {', '.join(errors.CAVEATS)}"]


def made() -> str:
    """Return the part of the page that follows from the code."""
    sections = {"Public names": names(), "Columns": columns(), "Files and exit codes": formats()}
    return "".join(
        f"\n## {title}\n\n```text\n{chr(10).join(lines)}\n```\n" for title, lines in sections.items()
    )


def main() -> int:
    """Check or write; the exit status."""
    complaint = (
        "is not what the code says: run scripts/stability.py, look at the difference, and name the change "
        "in CHANGELOG.md"
    )
    return write_or_check("stability.md", "stability.py", made(), complaint)


if __name__ == "__main__":
    sys.exit(main())
