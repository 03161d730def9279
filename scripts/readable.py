"""Measure how plain the source reads, and fail where it exceeds the bounds.

A statement that does several things at once, or a name that says nothing, costs every later reader time. This
script counts, with bounds for `src` and twice these bounds for tests and perf:

- nodes of the syntax tree per simple statement: the mean, the 99th percentile, and statements of more than
  LARGE nodes;
- idioms that hide what happens (see IDIOMS);
- local names that say nothing (FILLERS) or too little (VAGUE).

Tables of data, which are statements at the level of a module or class, are not counted as statements.
`--list` prints the places.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, quantiles

ROOT = Path(__file__).parents[1]
LARGE = 40
"""Nodes of a statement that should be unfolded, unless it has few of them per line."""
FEW_PER_LINE = 7
"""Nodes per line of a statement that has one step, field or column on each line."""
MANY_ARGUMENTS = 7
"""Positional arguments of a call that a reader can tell apart."""
FILLERS = frozenset(
    {
        "one", "other", "others", "found", "made", "mine", "ours", "theirs",
        "known", "given", "kept", "held", "own", "whole", "told", "said",
        "asked", "shown", "seen", "left", "rest", "got", "taken", "there",
        "here", "further", "right", "wrong", "good", "bad", "thing", "things",
        "what", "which", "some",
    }
)  # fmt: skip
VAGUE = ("data", "result", "info")
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Expr)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest values that pass: nodes of statements, places of each idiom, and shares of names."""

    mean: float
    percentile_99: float
    large: int
    idiom: int
    fillers: float
    vague: float

    def twice(self) -> Bounds:
        """Return bounds that are twice as wide."""
        return Bounds(
            mean=2 * self.mean,
            percentile_99=2 * self.percentile_99,
            large=2 * self.large,
            idiom=2 * self.idiom,
            fillers=2 * self.fillers,
            vague=2 * self.vague,
        )


OF_SOURCE = Bounds(mean=11.0, percentile_99=36, large=20, idiom=5, fillers=0.015, vague=0.005)
BOUNDS: Mapping[tuple[str, ...], Bounds] = {("src",): OF_SOURCE, ("tests", "perf"): OF_SOURCE.twice()}
"""Bounds for folders of the repository that are counted together."""


@dataclass(slots=True)
class Reading:
    """What was counted in some files: sizes of statements, names, and places of each kind of finding."""

    sizes: list[int] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    places: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def share(self, names: frozenset[str] | tuple[str, ...]) -> float:
        """Return the share of assigned names that are among `names`, without their leading underscores."""
        counted = sum(count for name, count in self.names.items() if name.lstrip("_") in names)
        return counted / max(self.names.total(), 1)


def size_of(tree: ast.AST) -> int:
    """Return the number of nodes of a syntax tree, without the contexts of names (read or written)."""
    return sum(not isinstance(node, ast.expr_context) for node in ast.walk(tree))


def unpacks_a_generator(node: ast.AST) -> bool:
    """Return whether a node is like `a, b = (f(x) for x in pair)`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.GeneratorExp)
    )


def assigns_three_at_once(node: ast.AST) -> bool:
    """Return whether a node is like `a, b, c = 1, 2, 3`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and len(node.targets[0].elts) > 2
    )


def multiplies_by_a_condition(node: ast.AST) -> bool:
    """Return whether a node is like `["text"] * (a > b)`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    sides = (node.left, node.right)
    return any(map(_is_list_or_text, sides)) and any(map(_is_condition, sides))


def _is_list_or_text(node: ast.expr) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or isinstance(node, ast.List | ast.JoinedStr)


def _is_condition(node: ast.expr) -> bool:
    is_bool = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
    return is_bool or isinstance(node, ast.Compare | ast.BoolOp)


def switches_by_a_dict(node: ast.AST) -> bool:
    """Return whether a node is like `{1: a, 2: b}[side]` or `{1: a}.get(side)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Dict)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr == "get" and isinstance(node.func.value, ast.Dict)


def loops_three_times(node: ast.AST) -> bool:
    """Return whether a node is like `[f(a, b, c) for a in x for b in y for c in z]`."""
    return isinstance(node, COMPREHENSIONS) and len(node.generators) > 2


def nests_conditions(node: ast.AST) -> bool:
    """Return whether a node is like `a if b else c if d else e`."""
    return isinstance(node, ast.IfExp) and (
        isinstance(node.body, ast.IfExp) or isinstance(node.orelse, ast.IfExp)
    )


def loops_to_raise(node: ast.AST) -> bool:
    """Return whether a node is like `for row in wrong: raise InputError(row)`."""
    return isinstance(node, ast.For) and len(node.body) == 1 and isinstance(node.body[0], ast.Raise)


def calls_by_position(node: ast.AST) -> bool:
    """Return whether a node is like `f(a, b, c, d, e, f, g, h)`."""
    return isinstance(node, ast.Call) and len(node.args) > MANY_ARGUMENTS


IDIOMS: Mapping[str, Callable[[ast.AST], bool]] = {
    "tuple unpacked from a generator": unpacks_a_generator,
    "three or more assignments in one tuple": assigns_three_at_once,
    "list or text multiplied by a condition": multiplies_by_a_condition,
    "dict literal as a switch": switches_by_a_dict,
    "comprehension of three loops": loops_three_times,
    "nested conditional expression": nests_conditions,
    "loop that can run once": loops_to_raise,
    f"call with more than {MANY_ARGUMENTS} positional arguments": calls_by_position,
}


def statements_of(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the simple statements inside functions. Docstrings are none."""
    owners = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef))
    tables = {id(statement) for owner in owners for statement in owner.body}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, SIMPLE) and not is_text and id(node) not in tables:
            yield node


def read_file(path: Path, reading: Reading) -> None:
    """Count what is in one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for statement in statements_of(tree):
        nodes = size_of(statement)
        reading.sizes.append(nodes)
        lines = (statement.end_lineno or statement.lineno) - statement.lineno + 1
        if nodes > max(LARGE, FEW_PER_LINE * lines):
            place = f"{path}:{statement.lineno} ({nodes})"
            reading.places[f"statement of more than {LARGE} nodes"].append(place)
    for node in ast.walk(tree):
        for idiom, occurs in IDIOMS.items():
            if occurs(node):
                line = getattr(node, "lineno", 0)
                reading.places[idiom].append(f"{path}:{line}")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            reading.names[node.id] += 1
            if node.id.lstrip("_") in FILLERS:
                reading.places["filler name"].append(f"{path}:{node.lineno} {node.id}")


def excesses(reading: Reading, bounds: Bounds) -> Iterator[str]:
    """Yield a sentence for each value that exceeds its bound."""
    average = mean(reading.sizes)
    percentile = quantiles(reading.sizes, n=100)[-1]
    if average > bounds.mean:
        yield f"statements have {average:.2f} nodes on average; at most {bounds.mean} are meant"
    if percentile > bounds.percentile_99:
        yield (
            f"1% of the statements have more than {percentile:.0f} nodes; at most {bounds.percentile_99} "
            f"are meant"
        )
    for kind, places in reading.places.items():
        if kind == "filler name":
            continue
        most = bounds.idiom if kind in IDIOMS else bounds.large
        if len(places) > most:
            yield f"{kind}: {len(places)} places; at most {most} are meant"
    if reading.share(FILLERS) > bounds.fillers:
        yield f"{reading.share(FILLERS):.1%} of the names are fillers; at most {bounds.fillers:.1%} are meant"
    for name in VAGUE:
        if reading.share((name,)) > bounds.vague:
            yield (
                f"{reading.share((name,)):.1%} of the names are {name!r}; at most {bounds.vague:.1%} are "
                f"meant"
            )


def main() -> int:
    """Print what was counted; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print the places of each kind")
    arguments = parser.parse_args()
    status = 0
    for folders, bounds in BOUNDS.items():
        reading = Reading()
        for folder in folders:
            for path in sorted((ROOT / folder).rglob("*.py")):
                read_file(path, reading)
        where = " and ".join(folders)
        print(
            f"{where}: {mean(reading.sizes):.1f} nodes per statement, {reading.share(FILLERS):.1%} fillers,"
            f" {sum(map(len, reading.places.values()))} places to look at"
        )
        if arguments.list:
            for kind, places in reading.places.items():
                print(f"  {kind}:", *places, sep="\n    ")
        for sentence in excesses(reading, bounds):
            status = 1
            print(f"{where}: {sentence}")
    return status


if __name__ == "__main__":
    sys.exit(main())
