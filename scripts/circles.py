"""Fail if modules import each other in a circle, also through strings and through the stubs of packages.

import-linter sees import statements only. A module that names another in a string ("tiltmeter.module:object")
depends on it as well, and a package with a stub (`__init__.pyi`) imports what the stub lists when it is first
used.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

PACKAGE = "tiltmeter"
SOURCE = Path(__file__).parents[1] / "src"
REFERENCE = re.compile(rf"{PACKAGE}(\.\w+)+(:\w+)?")
"""A text that consists of the name of a module, or of an object in it."""


def module_of(path: Path) -> str:
    """Return the dotted name of the module or package of a file."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def mentioned_in_strings(tree: ast.Module, modules: Set[str]) -> Iterator[str]:
    """Yield the modules that a module names in strings.

    A string that begins with the name of a package means all of its modules.
    """
    loggers = {
        id(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _is_get_logger(call.func)
    }
    for node in ast.walk(tree):
        if id(node) in loggers:
            continue
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            beginning = str(node.values[0].value)
            if beginning.endswith(".") and beginning.removesuffix(".") in modules - {PACKAGE}:
                yield from (module for module in modules if module.startswith(beginning))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and REFERENCE.fullmatch(node.value)
        ):
            module = node.value.partition(":")[0]
            if module in modules:
                yield module


def _is_get_logger(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "getLogger"


def listed_in_stub(path: Path, modules: Set[str]) -> Iterator[str]:
    """Yield the modules from which the stub of a package takes its names."""
    package = module_of(path)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            base = f"{package}.{node.module}" if node.level else str(node.module)
            if node.level and node.module is None:
                yield from (f"{package}.{name.name}" for name in node.names)
            elif base in modules:
                yield base


def main() -> int:
    """Print one circle, if there is one; return the exit status."""
    graph = grimp.build_graph(PACKAGE)
    modules = graph.modules
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in modules}
    for path in (SOURCE / PACKAGE).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports[module_of(path)] |= set(mentioned_in_strings(tree, modules)) - {module_of(path)}
    for path in (SOURCE / PACKAGE).rglob("*.pyi"):
        imports[module_of(path)] |= set(listed_in_stub(path, modules))
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        print("Modules import each other in a circle: " + " <- ".join(error.args[1]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
