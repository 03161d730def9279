"""Record of the outcomes of studies, with fingerprints of the code they examine."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from perf.studies.modules import MODULES, study_named

PACKAGE: Final = Path(__file__).parents[2] / "src" / "tiltmeter"
RECORD: Final = Path(__file__).parent / "recorded.yaml"
TOGETHER: Final = "all cases"
"""The case of claims about all cases together."""
SUFFIXES: Final = (".py", ".yaml", ".csv", ".json")


def fingerprint(name: str) -> str:
    """Return the fingerprint of a study.

    It covers the study's own code and generator, `study.py`, and the code and data of the package that the
    study examines.

    Comments, docstrings, formatting, the names of files and the version of Python do not change it.
    """
    folder, study = Path(__file__).parent, study_named(name)
    generator = [
        folder.parent / f"{module.removeprefix('perf.').replace('.', '/')}.py"
        for module in getattr(study, "GENERATOR", ())
    ]
    files = [folder / f"{name}.py", folder / "study.py", *generator, *_files(study.CODE)]
    digests = [_digest(path) for path in files]
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]


def _files(code: Sequence[str]) -> Iterator[Path]:
    """Yield the source and data files of modules and packages. Data files of a module have its name."""
    for module in code:
        path = PACKAGE.joinpath(*module.split("."))
        if path.is_dir():
            files = [file for file in path.rglob("*") if file.suffix in SUFFIXES]
        else:
            candidates = [path.with_suffix(suffix) for suffix in SUFFIXES]
            files = [file for file in candidates if file.is_file()]
        if not files:
            raise ValueError(
                f"a study examines tiltmeter.{module}, which does not exist; correct CODE in that study"
            )
        yield from files


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = _syntax(content.decode()).encode()
    return hashlib.sha256(content).hexdigest()


def _syntax(source: str) -> str:
    """Return the syntax tree of a module as text, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_text(statement)] or [ast.Pass()]
        if isinstance(node, ast.JoinedStr):
            # Python 3.12 adds empty texts.
            node.values = [value for value in node.values if not _is_empty(value)]
    return _tree_text(tree)


def _tree_text(node: object) -> str:
    """Return a syntax tree as text.

    `ast.dump` and `ast.unparse` give other texts in other versions of Python.

    Fields without a value are left out: later versions of Python have more of them.
    """
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_tree_text(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(_tree_text(item) for item in node)}]"
    return repr(node)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == ""


def recorded() -> dict[str, dict[str, Any]]:
    """Return the record of each study by name."""
    if not RECORD.is_file():
        return {}
    return yaml.safe_load(RECORD.read_text(encoding="utf-8")) or {}


def write(records: dict[str, dict[str, Any]]) -> None:
    """Write the records, in the order of `MODULES`."""
    ordered = {name: records[name] for name in MODULES if name in records}
    RECORD.write_text(
        yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None),
        encoding="utf-8",
    )


def table() -> Iterator[str]:
    """Yield the lines of a Markdown table for each study, with its date and the figures of each case."""
    stale = {sentence.partition(":")[0] for sentence in complaints()}
    for name, record in recorded().items():
        note = "; stale, the code has changed since" if name in stale else ""
        yield f"## {name}"
        yield ""
        yield f"{record['question']} (carried out on {record['date']}{note})"
        yield ""
        yield "| case | claim | observed | promised |"
        yield "|---|---|---|---|"
        for case, figures in record["figures"].items():
            for claim, (observed, low, high) in figures.items():
                yield f"| {case} | {claim} | {observed:g} | {low:g} to {high:g} |"
        yield ""


class ClaimSummary(NamedTuple):
    """A figure of a study over the cases that promise the same of it."""

    study: str
    claim: str
    cases: int
    lowest: float
    highest: float
    low: float
    high: float
    """The promised range."""


def summary() -> Iterator[ClaimSummary]:
    """Yield the figures of each recorded study over its cases. Figures of single metrics are combined."""
    for name, record in recorded().items():
        observed: dict[tuple[str, float, float], list[float]] = {}
        for case, figures in record["figures"].items():
            for claim, (value, low, high) in figures.items():
                kind = claim if case == TOGETHER else claim.rpartition(": ")[2]
                observed.setdefault((kind, low, high), []).append(value)
        for (kind, low, high), values in observed.items():
            yield ClaimSummary(name, kind, len(values), min(values), max(values), low, high)


def complaints() -> list[str]:
    """Return a sentence for each study that is not recorded or stale, or in which a claim did not hold."""
    records = recorded()
    sentences = []
    for name in MODULES:
        if name not in records:
            sentences.append(f"{name}: was never carried out")
        elif records[name]["fingerprint"] != fingerprint(name):
            sentences.append(f"{name}: its code has changed since {records[name]['date']}")
        elif not records[name]["holds"]:
            sentences.append(f"{name}: a claim did not hold on {records[name]['date']}")
    return sentences
