"""Check that the tests find faults: change single places of the source, and run the tests that cover them.

After a change of the tests (such as a faster suite), they must find the faults that were found before:

1. `python scripts/faults.py modules --since COMMIT -o faults.coveragerc` draws ten modules that are the same
   in both commits, from a fixed seed.
2. `pytest --cov --cov-config=faults.coveragerc --cov-context=test --cov-report= ...` records in `.coverage`
   which tests run which of their lines.
3. `python scripts/faults.py draw .coverage -o faults.json` draws thirty faults.
4. `python scripts/faults.py check faults.json .coverage` makes each fault in a temporary git worktree of HEAD
   (`--commit` names another commit), runs the tests that cover its line until one fails, and prints a
   table. The working folder is never changed. The same tests must pass without the fault; otherwise it is
   not counted. A fault is found if a test fails, or does not end in five minutes. Mistakes in the command
   and errors while tests are collected do not count. The status is 0 if each fault is found.

For the tests of the commit before, repeat step 2 in a folder of that commit, and step 4 with its `.coverage`
and `--commit COMMIT`.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TIMEOUT = 300
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
    # Inner functions are visited as functions.
    if isinstance(node, ast.JoinedStr | ast.FunctionDef | ast.AsyncFunctionDef):
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
    """Return the tests that ran each line of a measured file, without lines that ran outside a test."""
    contexts = data.contexts_by_lineno(module)
    named = {
        line: frozenset(name.partition("|")[0] for name in names if "::" in name)
        for line, names in contexts.items()
    }
    return {line: tests for line, tests in named.items() if tests}


def draw_modules(out: Path, seed: int, count: int, since: str) -> None:
    """Draw modules that are the same as in the commit `since`; write a configuration of coverage for them."""
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
    share, remainder = divmod(count, len(modules))
    faults = []
    for position, module in enumerate(modules):
        possible = possible_faults(Path(module), frozenset(tests_by_line(data, module)))
        wanted = share + (position < remainder)
        faults += generator.sample(possible, min(wanted, len(possible)))
    out.write_text(json.dumps([asdict(fault) for fault in faults], indent=1) + "\n", encoding="utf-8")
    print(f"{len(faults)} faults in {len(modules)} modules, seed {seed}: {out}")


def check(faults: Path, coverage: Path, seed: int, commit: str) -> int:
    """Make each fault and run the tests that cover its line; print a table, and return the exit status."""
    data = _read(coverage)
    generator = random.Random(seed)
    outcomes = []
    print("| module | line | fault | tests that cover it | found by |\n|---|---|---|---|---|")
    with worktree(commit) as copy:
        for values in json.loads(faults.read_text(encoding="utf-8")):
            fault = Fault(**values)
            tests = sorted(tests_of(fault, data))
            chosen = generator.sample(tests, min(MOST_TESTS, len(tests)))
            outcome = examined(fault, chosen, copy)
            outcomes.append(outcome)
            place = f"{fault.module} | {fault.line}"
            change = f"`{fault.original}` -> `{fault.replacement}`"
            print(f"| {place} | {change} | {len(tests)} | {outcome.found_by} |", flush=True)
    counted = [outcome for outcome in outcomes if outcome.is_counted]
    with_failure = [outcome for outcome in counted if outcome.is_found]
    print(f"\n{len(with_failure)} of {len(counted)} faults found; {len(outcomes) - len(counted)} not counted")
    return 0 if len(with_failure) == len(outcomes) else 1


def tests_of(fault: Fault, data: CoverageData) -> frozenset[str]:
    """Return the tests that ran the line of a fault, in whichever folder they were recorded."""
    for measured in data.measured_files():
        if Path(measured).as_posix().endswith(f"/{fault.module}"):
            return tests_by_line(data, measured).get(fault.line, frozenset())
    return frozenset()


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Path(folder) / "worktree"
        adding = ["git", "worktree", "add", "--quiet", "--detach", str(copy), commit]
        removing = ["git", "worktree", "remove", "--force", str(copy)]
        subprocess.run(adding, cwd=ROOT, check=True)
        try:
            yield copy
        finally:
            subprocess.run(removing, cwd=ROOT, check=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the tests of a fault."""

    found_by: str
    is_found: bool = False
    is_counted: bool = True


def examined(fault: Fault, tests: Sequence[str], copy: Path) -> Outcome:
    """Run tests without a fault and with it, in a copy of the repository."""
    if not tests:
        return Outcome("**none**")
    without = run_tests(tests, copy)
    if without.status != 0:
        return Outcome(f"not counted: without the fault, {without.described}", is_counted=False)
    module = copy / "src" / fault.module
    text = module.read_text(encoding="utf-8")
    module.write_text(_with_fault(text, fault), encoding="utf-8")
    with_fault = run_tests(tests, copy)
    module.write_text(text, encoding="utf-8")
    if with_fault.status is None:
        return Outcome(with_fault.described, is_found=True)
    if with_fault.status == 1 and with_fault.failed is not None:
        return Outcome(with_fault.failed, is_found=True)
    return Outcome(f"**none**: {with_fault.described}")


def _with_fault(text: str, fault: Fault) -> str:
    """Return the text of a module with the fault."""
    lines = text.splitlines(keepends=True)
    encoded = lines[fault.line - 1].encode()
    original = fault.original.encode()
    end = fault.column + len(original)
    if encoded[fault.column : end] != original:
        raise SystemExit(
            f"{fault.module}:{fault.line} is not the line the fault was drawn from; draw faults again"
        )
    lines[fault.line - 1] = (encoded[: fault.column] + fault.replacement.encode() + encoded[end:]).decode()
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class TestRun:
    """How a run of pytest ended."""

    status: int | None
    """Exit status; None at the time limit."""
    failed: str | None
    """The first test that failed."""

    @property
    def described(self) -> str:
        """The end of the run in words."""
        if self.status is None:
            return "the time limit was reached"
        if self.status == 0:
            return "all tests passed"
        return f"{self.failed or 'no test'} failed (pytest ended with status {self.status})"


def run_tests(tests: Sequence[str], copy: Path) -> TestRun:
    """Run tests in a copy of the repository until one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    shared = os.environ.get("TILTMETER_SHARED", str(ROOT.parent / "shared"))
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "TILTMETER_SHARED": shared,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return TestRun(None, None)
    named = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    failed = [name for name in named if "::" in name]  # an error while a file is collected names the file
    return TestRun(done.returncode, failed[0] if failed else None)


def _read(coverage: Path) -> CoverageData:
    data = CoverageData(basename=str(coverage))
    try:
        data.read()
    except sqlite3.Error as error:
        raise SystemExit(
            f"{coverage} is not a record of coverage ({error}); make it as the head of this file says"
        ) from None
    if not data.measured_files():
        raise SystemExit(f"{coverage} records no module; make it as the head of this file says")
    return data


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description="Draw faults in the source, or check that the tests find them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    choosing = commands.add_parser("modules")
    choosing.add_argument("-o", "--out", type=Path, required=True)
    choosing.add_argument("--count", type=int, default=10)
    choosing.add_argument(
        "--since", default="HEAD", help="the commit whose tests are compared with those of today"
    )
    drawing = commands.add_parser("draw")
    drawing.add_argument("coverage", type=Path)
    drawing.add_argument("-o", "--out", type=Path, required=True)
    drawing.add_argument("--count", type=int, default=30)
    checking = commands.add_parser("check")
    checking.add_argument("faults", type=Path)
    checking.add_argument("coverage", type=Path)
    checking.add_argument("--commit", default="HEAD", help="the commit in which the faults are made")
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
