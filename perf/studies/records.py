"""Record of the outcomes of studies, with fingerprints of the code they examine."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from perf.studies.study import MODULES, study_named

PACKAGE: Final = Path(__file__).parents[2] / "src" / "tiltmeter"
RECORD: Final = Path(__file__).parent / "recorded.yaml"
DATA_SUFFIXES: Final = (".yaml", ".csv", ".json")


def fingerprint(name: str) -> str:
    """Return the fingerprint of a study: of its own code and of the code and data of the package that it examines.

    Comments, docstrings, formatting and the names of files do not change it.
    """
    study_file = Path(__file__).parent / f"{name}.py"
    digests = [_digest(study_file), *(_digest(path) for path in _files(study_named(name).CODE))]
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]


def _files(code: Sequence[str]) -> Iterator[Path]:
    """Yield the source and data files of modules and packages."""
    for module in code:
        path = PACKAGE.joinpath(*module.split("."))
        if path.is_dir():
            yield from (file for file in path.rglob("*") if file.suffix in (".py", *DATA_SUFFIXES))
        elif path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
        else:
            raise ValueError(f"a study examines tiltmeter.{module}, which does not exist; correct CODE in that study")


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
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def recorded() -> dict[str, dict[str, Any]]:
    """Return the record of each study by name."""
    if not RECORD.is_file():
        return {}
    return yaml.safe_load(RECORD.read_text(encoding="utf-8")) or {}


def write(records: dict[str, dict[str, Any]]) -> None:
    """Write the records, in the order of `MODULES`."""
    ordered = {name: records[name] for name in MODULES if name in records}
    RECORD.write_text(yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=110), encoding="utf-8")


def complaints() -> list[str]:
    """Return a sentence for each study that was never recorded, whose code has changed since, or in which a claim did not hold."""
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
