"""Show that the tests find faults: change single places of the source that tests cover, and run the tests that cover them.

A change of the tests (a faster suite, say) must find what the tests before it found:

1. `python scripts/faults.py modules --since COMMIT -o faults.coveragerc` draws ten modules that are the same in both commits, from a
   fixed seed.
2. `pytest --cov --cov-config=faults.coveragerc --cov-context=test --cov-report= ...` records in `.coverage` which tests run which of their
   lines.
3. `python scripts/faults.py draw .coverage -o faults.json` draws thirty faults.
4. `python scripts/faults.py check faults.json .coverage` checks out the commit in a temporary folder, makes each fault there, runs the
   tests that cover its line until one fails, and prints a table. A test that fails without the fault too does not count. The exit status
   is 1 if a fault is not found.

For the tests of the commit before, repeat step 2 in a folder of that commit, and step 4 with its `.coverage` and `--commit COMMIT`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TIMEOUT = 1200
"""Seconds for the tests that cover one line."""
MOST_TESTS = 15
"""Largest number of tests that are run for a fault, drawn at random from those that cover its line."""

SHORTEST = 60
"""Smallest number of lines in functions of a module that is drawn."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
"""Each operator and the one that replaces it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A place in the source and what replaces it."""

    module: str
    """Path below `src`."""
    line: int
    column: int
    original: str
    replacement: str


def changed(node: ast.AST) -> ast.AST | None:
    """Return the expression with a fault, or None for an expression of another kind."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(operator)]()], comparators)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            return ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.BoolOp(op=ast.And(), values=values):
            return ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ast.IfExp(test, orelse, body)
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            return ast.Constant(value * 1.5 + 0.1)
    return None


def possible_faults(module: Path, covered: frozenset[int]) -> list[Fault]:
    """Return the faults that can be made in the functions of a module, on lines that tests cover."""
    text = module.read_text(encoding="utf-8")
    name = module.relative_to(SOURCE).as_posix()
    faults = []
    for node in _expressions_in_functions(ast.parse(text)):
        replacement = changed(node)
        original = ast.get_source_segment(text, node)
        on_one_line = node.lineno == node.end_lineno
        if replacement is not None and original is not None and on_one_line and node.lineno in covered:
            code = f"({ast.unparse(ast.fix_missing_locations(replacement))})"
            faults.append(Fault(name, node.lineno, node.col_offset, original, code))
    return faults


def _expressions_in_functions(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the expressions in bodies of functions, without annotations, defaults and texts."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from _expressions(statement)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.JoinedStr | ast.FunctionDef | ast.AsyncFunctionDef):  # inner functions are visited as functions
        return
    if isinstance(node, ast.expr):
        yield node
    for name, field in ast.iter_fields(node):
        if name == "annotation":
            continue
        children = field if isinstance(field, list) else [field]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def tests_by_line(data: CoverageData, module: str) -> dict[int, frozenset[str]]:
    """Return the tests that ran each line of a measured file; lines that ran outside a test are left out."""
    contexts = data.contexts_by_lineno(module)
    named = {line: frozenset(name.partition("|")[0] for name in names if "::" in name) for line, names in contexts.items()}
    return {line: tests for line, tests in named.items() if tests}


def draw_modules(out: Path, seed: int, count: int, since: str) -> None:
    """Draw modules that are the same as in the commit `since`, and write a configuration of coverage for them."""
    command = ["git", "diff", "--name-only", since, "--", "src"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    changed_files = {ROOT / name for name in listing.splitlines()}
    files = sorted({*(SOURCE / "tiltmeter").rglob("*.py")} - changed_files)
    eligible = [path for path in files if len(_lines_of_functions(path)) >= SHORTEST]
    modules = sorted(random.Random(seed).sample(eligible, count))
    lines = "".join(f"    */{module.relative_to(SOURCE).as_posix()}\n" for module in modules)
    out.write_text(f"[run]\ninclude =\n{lines}", encoding="utf-8")
    print(lines, end="")


def _lines_of_functions(module: Path) -> set[int]:
    """Return the lines with expressions in functions of a module."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return {expression.lineno for expression in _expressions_in_functions(tree)}


def draw(coverage: Path, seed: int, count: int, out: Path) -> None:
    """Draw faults, the same number from each module."""
    data = _read(coverage)
    modules = sorted(data.measured_files())
    generator = random.Random(seed)
    share, rest = divmod(count, len(modules))
    faults = []
    for position, module in enumerate(modules):
        possible = possible_faults(Path(module), frozenset(tests_by_line(data, module)))
        wanted = share + (position < rest)
        faults += generator.sample(possible, min(wanted, len(possible)))
    out.write_text(json.dumps([asdict(fault) for fault in faults], indent=1) + "\n", encoding="utf-8")
    print(f"{len(faults)} faults in {len(modules)} modules, seed {seed}: {out}")


def check(faults: Path, coverage: Path, seed: int, commit: str) -> int:
    """Make each fault in a copy of a commit and run the tests that cover its line; print a table, and return the exit status."""
    data = _read(coverage)
    generator = random.Random(seed)
    missed = 0
    print("| module | line | fault | tests that cover it | found by |\n|---|---|---|---|---|")
    with checked_out(commit) as folder:
        for values in json.loads(faults.read_text(encoding="utf-8")):
            fault = Fault(**values)
            tests = sorted(_tests_of(fault, data))
            chosen = generator.sample(tests, min(MOST_TESTS, len(tests)))
            failure = _first_failure(fault, folder, chosen)
            missed += failure is None
            place = f"{fault.module} | {fault.line}"
            print(f"| {place} | `{fault.original}` -> `{fault.replacement}` | {len(tests)} | {failure or '**none**'} |", flush=True)
    return 1 if missed else 0


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="faults-") as parent:
        folder = Path(parent) / "source"
        checkout = ["git", "worktree", "add", "--quiet", "--detach", str(folder), commit]
        removal = ["git", "worktree", "remove", "--force", str(folder)]
        subprocess.run(checkout, cwd=ROOT, check=True)
        try:
            yield folder
        finally:
            subprocess.run(removal, cwd=ROOT, check=True)


def _tests_of(fault: Fault, data: CoverageData) -> frozenset[str]:
    """Return the tests that ran the line of a fault, in whichever folder they were recorded."""
    for measured in data.measured_files():
        if Path(measured).as_posix().endswith(f"/{fault.module}"):
            return tests_by_line(data, measured).get(fault.line, frozenset())
    return frozenset()


def _first_failure(fault: Fault, folder: Path, tests: list[str]) -> str | None:
    """Return the first test that fails with the fault and passes without it, or None."""
    module = folder / "src" / fault.module
    text = module.read_text(encoding="utf-8")
    left = list(tests)
    while left:
        module.write_text(_with_fault(text, fault), encoding="utf-8")
        try:
            failure = _failing_test(folder, left)
        finally:
            module.write_text(text, encoding="utf-8")
        if failure is None or _failing_test(folder, [failure]) is None:
            return failure
        left = left[left.index(failure) + 1 :]
    return None


def _with_fault(text: str, fault: Fault) -> str:
    """Return the source of a module with a fault."""
    lines = text.splitlines(keepends=True)
    encoded = lines[fault.line - 1].encode()
    original = fault.original.encode()
    end = fault.column + len(original)
    if encoded[fault.column : end] != original:
        raise SystemExit(f"{fault.module}:{fault.line} is not the line the fault was drawn from; draw faults anew")
    lines[fault.line - 1] = (encoded[: fault.column] + fault.replacement.encode() + encoded[end:]).decode()
    return "".join(lines)


def _failing_test(folder: Path, tests: list[str]) -> str | None:
    """Run tests one after the other until one fails; return the one that failed or did not end in time, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-v", "--no-header", "-p", "no:cacheprovider", "-n", "0", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile(mode="w+") as printed:
        try:
            done = subprocess.run(command, cwd=folder, stdout=printed, stderr=printed, env=environment, timeout=TIMEOUT, check=False)
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = None
        printed.seek(0)
        lines = printed.read().splitlines()
    if status == 0:
        return None
    failed = [line.partition(" - ")[0].split(maxsplit=1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    begun = [test for test in tests if any(line.startswith(test) for line in lines)]
    named = failed if status == 1 else begun[-1:]
    if status not in (None, 1) or not named:
        raise SystemExit("\n".join([*lines[-20:], f"pytest ended with status {status}: the tests cannot be run"]))
    return next(test for test in tests if named[0].startswith(test))


def _read(coverage: Path) -> CoverageData:
    data = CoverageData(basename=str(coverage))
    try:
        data.read()
    except sqlite3.Error as error:
        raise SystemExit(f"{coverage} is not a record of coverage ({error}); make it as the head of this file says") from None
    if not data.measured_files():
        raise SystemExit(f"{coverage} records no module; make it as the head of this file says")
    return data


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Draw faults in the source, or check that the tests find them.")
    commands = parser.add_subparsers(dest="command", required=True)
    choosing = commands.add_parser("modules")
    choosing.add_argument("-o", "--out", type=Path, required=True)
    choosing.add_argument("--count", type=int, default=10)
    choosing.add_argument("--since", default="HEAD", help="the commit whose tests are compared with those of today")
    drawing = commands.add_parser("draw")
    drawing.add_argument("coverage", type=Path)
    drawing.add_argument("-o", "--out", type=Path, required=True)
    drawing.add_argument("--count", type=int, default=30)
    checking = commands.add_parser("check")
    checking.add_argument("faults", type=Path)
    checking.add_argument("coverage", type=Path)
    checking.add_argument("--commit", default="HEAD", help="the commit whose tests are run")
    for command in (choosing, drawing, checking):
        command.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    if options.command == "modules":
        draw_modules(options.out, options.seed, options.count, options.since)
        return 0
    if options.command == "draw":
        draw(options.coverage, options.seed, options.count, options.out)
        return 0
    return check(options.faults, options.coverage, options.seed, options.commit)


if __name__ == "__main__":
    sys.exit(main())
