"""Data published as Python source: read off its syntax tree, never executed."""

from __future__ import annotations

import ast
from typing import Any

from tiltmeter.errors import InputError

__all__ = ["read_literal"]


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """Top-level `name = expression` of a module; the last one wins, as it would in Python."""
    found: dict[str, ast.expr] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            found.update({target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)})
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
            found[statement.target.id] = statement.value
    return found


def read_literal(source: str, name: str, variable: str | None = None) -> Any:
    """The value assigned to `variable` at the top level of `source`, which must be written as a literal.

    Functions, imports and all other statements are passed over, not run. Without `variable` the source must assign exactly one.

    Parameters
    ----------
    source
        Python source text.
    name
        What to call the source in messages.
    variable
        Name of the variable.

    Raises
    ------
    InputError
        The text is no Python, has no such variable, or its value is an expression that would have to be executed.
    """
    try:
        assigned = _assignments(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{name} is not readable as Python literals ({error}); use the file its catalogue entry describes") from error
    if variable is None:
        if len(assigned) != 1:
            raise InputError(f"{name} assigns {', '.join(assigned) or 'nothing'}; name the one variable to read")
        (variable,) = assigned
    if variable not in assigned:
        raise InputError(f"{name} has no variable {variable!r} (it assigns {', '.join(assigned) or 'nothing'})")
    try:
        return ast.literal_eval(assigned[variable])
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{name}, variable {variable!r}, is not a plain literal, and data is never executed; "
            "write it out as numbers, strings, lists and dicts"
        ) from error
