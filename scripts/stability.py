"""Write the stable parts into docs/stability.md, or check that the page and the code agree (`--check`)."""

from __future__ import annotations

import inspect
import sys

from generated import write_or_check

import tiltmeter
from tiltmeter import api, errors, schema
from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.engine._database import SCHEMA
from tiltmeter.runs._resolving import StudyDocument

_EXITS = {
    "OK": "done",
    "GATE": "a gate failed",
    "INPUT": "wrong usage or input",
    "INCOMPLETE": "incomplete",
    "PROVIDER": "no responses",
}


def names() -> list[str]:
    """Return one line for each public name, with its signature or, for classes, its public members."""
    lines = []
    for name in tiltmeter.__all__:
        value = getattr(api, name, None) or getattr(tiltmeter, name)
        if inspect.isfunction(value):
            lines.append(f"{name}{inspect.signature(value)}")
        elif isinstance(value, type) and not issubclass(value, BaseException):
            members = [member for member in dir(value) if not member.startswith("_")]
            dataclass_fields = getattr(value, "__dataclass_fields__", {})
            fields = [field for field in dataclass_fields if not field.startswith("_")]
            lines.append(f"class {name}: {', '.join(dict.fromkeys([*fields, *members]))}")
        else:
            lines.append(f"{name}: {value.__mro__[1].__name__}" if isinstance(value, type) else name)
    return lines


def columns() -> list[str]:
    """Return one line for each table, with the columns that it always has."""
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
    """Return one line for each file and number that a program may rely on."""
    codes = [f"exit {getattr(errors, f'EXIT_{name}')}: {meaning}" for name, meaning in _EXITS.items()]
    folder = (
        "run folder: study.yaml, run.json, design.parquet, responses.parquet, measures.parquet, "
        "findings.parquet, stages/*.parquet"
    )
    keys = f"study.yaml: {', '.join(StudyDocument.model_fields)}"
    return [*codes, folder, keys, f"journal: schema {SCHEMA}", f"caveats: {', '.join(errors.CAVEATS)}"]


def part_of_page() -> str:
    """Return the part of the page that follows from the code."""
    sections = {"Public names": names(), "Columns": columns(), "Files and exit codes": formats()}
    return "".join(
        f"\n## {title}\n\n```text\n{chr(10).join(lines)}\n```\n" for title, lines in sections.items()
    )


def main() -> int:
    """Check or write; return the exit status."""
    complaint = (
        "is not what the code says: run scripts/stability.py, look at the difference, and name the change "
        "in CHANGELOG.md"
    )
    return write_or_check("stability.md", "stability.py", part_of_page(), complaint)


if __name__ == "__main__":
    sys.exit(main())
