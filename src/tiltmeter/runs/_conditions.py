"""Conditions on the tables of a run, in a small part of SQL.

A run may come from anyone, and SQL can read any file or address that a query names. A condition is therefore
never passed to an SQL engine: it is parsed here and converted to an expression. What this grammar does not
contain cannot be evaluated, function calls in particular:

    condition   = conjunction, {"OR", conjunction}
    conjunction = negation, {"AND", negation}
    negation    = {"NOT"}, predicate
    predicate   = "(", condition, ")" | value, comparison
    comparison  = operator, value
                | "IS", ["NOT"], "NULL"
                | ["NOT"], "BETWEEN", value, "AND", value
                | ["NOT"], "IN", "(", (query | literal, {",", literal}), ")"
    query       = "SELECT", ["DISTINCT"], column, "FROM", table, ["WHERE", condition]
    value       = column | literal
    literal     = text | ["-"], number | "TRUE" | "FALSE"
    column      = [table, "."], name
    operator    = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="

Keywords are read in upper and lower case. Names may be quoted (`"name"`), and texts are quoted (`'it''s'`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from polars import Expr, LazyFrame, Schema, Series, col, lit

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|<=|>=|[=<>(),.\-])
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset(
    {
        "AND",
        "BETWEEN",
        "DISTINCT",
        "FALSE",
        "FROM",
        "IN",
        "IS",
        "NOT",
        "NULL",
        "OR",
        "SELECT",
        "TRUE",
        "WHERE",
    }
)
_OPERATORS: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BOOLEANS: Final = {"TRUE": True, "FALSE": False}
_DEEPEST: Final = 50
"""Maximum number of conditions inside one another."""
_MOST_DIGITS: Final = 18
"""Maximum number of digits of an integer; longer ones are read as floating-point numbers."""

_Literal = str | int | float | bool


class ConditionError(ValueError):
    """A text is not a condition on these tables; the message gives the reason."""


class _Token(NamedTuple):
    kind: str
    """"keyword", "name", "text", "number", "sign", or "end"."""
    text: str


class _Named(NamedTuple):
    """A column as it is written."""

    table: str | None
    column: str


class _Scope(NamedTuple):
    """The table to whose columns names refer."""

    table: str
    columns: Schema


def parsed_condition(condition: str, tables: Mapping[str, LazyFrame], table: str) -> Expr:
    """Return the expression of a condition on the rows of a table.

    Sub-queries are carried out at once, on the other tables.

    Parameters
    ----------
    tables
        All tables that the condition may name.
    table
        The table on whose rows it is a condition.

    Raises
    ------
    ConditionError
        The text is not a condition of the grammar above, or names a table or a column that does not exist.
    """
    return _Parser(_tokens(condition), tables).whole(table)


def _tokens(condition: str) -> list[_Token]:
    tokens: list[_Token] = []
    position, end = 0, len(condition.rstrip())
    while position < end:
        match = _TOKEN.match(condition, position, end)
        if match is None:
            raise ConditionError(f"character {position + 1} begins nothing that a condition may contain")
        tokens.append(_token(str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    return [*tokens, _Token("end", "the end")]


def _token(kind: str, text: str) -> _Token:
    if kind == "text":
        return _Token("text", text[1:-1].replace("''", "'"))
    if kind == "quoted":
        return _Token("name", text[1:-1].replace('""', '"'))
    if kind != "word":
        return _Token(kind, text)
    if text.upper() in _KEYWORDS:
        return _Token("keyword", text.upper())
    return _Token("name", text)


class _Parser:
    """Parser of one condition: a method for each rule of the grammar, which reads the tokens of the rule."""

    def __init__(self, tokens: Sequence[_Token], tables: Mapping[str, LazyFrame]) -> None:
        self._tokens = tokens
        self._tables = tables
        self._position = 0
        self._depth = 0

    def whole(self, table: str) -> Expr:
        """Return the expression of all tokens, as a condition on a table."""
        condition = self._condition(self._scope(table))
        if self._next.kind != "end":
            raise ConditionError(f"{self._next.text!r} is not expected after a condition")
        return condition

    # Tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _taken(self, kind: str, *texts: str) -> str | None:
        """Return the text of the next token and go on, if it has this kind and one of these texts.

        Otherwise return None.
        """
        token = self._next
        if token.kind != kind or (texts and token.text not in texts):
            return None
        self._position += 1
        return token.text

    def _required(self, kind: str, *texts: str) -> str:
        text = self._taken(kind, *texts)
        if text is None:
            expected = " or ".join(texts) or f"a {kind}"
            raise ConditionError(f"{self._next.text!r} stands where {expected} is expected")
        return text

    # Rules

    def _condition(self, scope: _Scope) -> Expr:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConditionError(f"more than {_DEEPEST} conditions are inside one another")
        operands = [self._conjunction(scope)]
        while self._taken("keyword", "OR"):
            operands.append(self._conjunction(scope))
        self._depth -= 1
        return _combined(operands, operator.or_)

    def _conjunction(self, scope: _Scope) -> Expr:
        operands = [self._negation(scope)]
        while self._taken("keyword", "AND"):
            operands.append(self._negation(scope))
        return _combined(operands, operator.and_)

    def _negation(self, scope: _Scope) -> Expr:
        negated = False
        while self._taken("keyword", "NOT"):
            negated = not negated
        predicate = self._predicate(scope)
        return ~predicate if negated else predicate

    def _predicate(self, scope: _Scope) -> Expr:
        if self._taken("sign", "("):
            condition = self._condition(scope)
            self._required("sign", ")")
            return condition
        return self._comparison(self._value(scope), scope)

    def _comparison(self, value: Expr, scope: _Scope) -> Expr:
        sign = self._taken("sign", *_OPERATORS)
        if sign is not None:
            return _OPERATORS[sign](value, self._value(scope))
        if self._taken("keyword", "IS"):
            negated = self._taken("keyword", "NOT")
            self._required("keyword", "NULL")
            return value.is_not_null() if negated else value.is_null()
        negated = self._taken("keyword", "NOT")
        if self._required("keyword", "IN", "BETWEEN") == "IN":
            self._required("sign", "(")
            compared = value.is_in(self._members())
            self._required("sign", ")")
        else:
            low = self._value(scope)
            self._required("keyword", "AND")
            compared = value.is_between(low, self._value(scope))
        return ~compared if negated else compared

    def _members(self) -> Expr:
        """Return the members of a set: the rows of a sub-query, or literals."""
        if self._taken("keyword", "SELECT"):
            members = self._query()
        else:
            literals = [self._literal()]
            while self._taken("sign", ","):
                literals.append(self._literal())
            if len({isinstance(literal, str) for literal in literals}) > 1:
                raise ConditionError("a list contains both texts and numbers")
            members = Series(literals, strict=False)
        return lit(members).implode()

    def _query(self) -> Series:
        """Return the values of a sub-query, without duplicates."""
        self._taken("keyword", "DISTINCT")
        named = self._named()
        self._required("keyword", "FROM")
        scope = self._scope(self._required("name"))
        column = _column(named, scope)
        rows = self._tables[scope.table]
        if self._taken("keyword", "WHERE"):
            rows = rows.filter(self._condition(scope))
        return rows.select(column).unique().collect().to_series()

    def _value(self, scope: _Scope) -> Expr:
        if self._next.kind == "name":
            return _column(self._named(), scope)
        return lit(self._literal())

    def _named(self) -> _Named:
        name = self._required("name")
        if self._taken("sign", "."):
            return _Named(name, self._required("name"))
        return _Named(None, name)

    def _literal(self) -> _Literal:
        text = self._taken("text")
        if text is not None:
            return text
        word = self._taken("keyword", *_BOOLEANS)
        if word is not None:
            return _BOOLEANS[word]
        negated = self._taken("sign", "-")
        digits = self._required("number")
        number = int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else float(digits)
        return -number if negated else number

    def _scope(self, table: str) -> _Scope:
        if table not in self._tables:
            raise ConditionError(f"there is no table {table!r}")
        return _Scope(table, self._tables[table].collect_schema())


def _column(named: _Named, scope: _Scope) -> Expr:
    if named.table not in (None, scope.table):
        raise ConditionError(f"{named.table!r} is not the table of this condition")
    if named.column not in scope.columns:
        raise ConditionError(f"the table {scope.table} has no column {named.column!r}")
    return col(named.column)


def _combined(operands: Sequence[Expr], combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """Combine conditions as a balanced tree, because Polars needs stack memory for each level."""
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    return combine(_combined(operands[:middle], combine), _combined(operands[middle:], combine))
