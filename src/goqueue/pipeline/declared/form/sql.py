"""SQL as text: which tables a query reads, and whether it is SQL at all. Spark is not needed for that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_DIALECT = "spark"
_SCHEMA_FORM = "write a schema as in: id BIGINT, paid BOOLEAN, at TIMESTAMP"
# sqlglot takes the function for the clause WINDOW where it is the first thing to group by.
_BY_WINDOW = re.compile(r"\b(group\s+by\s+)window(\s*\()", re.IGNORECASE)
# Also a sort of each share of the rows is one to Spark.
_SORTS = ("ORDER", "SORT", "CLUSTER")
_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


class BadSql(ValueError):
    """Not SQL; says where."""


class SqlJoin(NamedTuple):
    """Two sides that a query joins, each with the tables in it.

    `how` is inner, left, right, full, semi or anti; `NOT IN (SELECT ...)` is an anti join as well. `equal` are the
    columns that are said to be the same on both sides, `has_range` whether the condition also compares by order.
    """

    how: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    equal: frozenset[str]
    has_range: bool


@cache
def tables_of(query: str) -> tuple[str, ...]:
    """The tables that a query reads, in the order in which they are named; those it defines itself left out."""
    tree = _parsed(query)
    if not isinstance(tree, exp.Query):
        raise BadSql("only a query (SELECT ...) can be a step")
    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    return tuple(dict.fromkeys(table.name for table in tree.find_all(exp.Table) if table.name not in own))


@cache
def aggregated_by(query: str) -> tuple[str, ...]:
    """The tables whose rows a query adds up, counts, groups or tells apart, where it names them directly."""
    tree = _parsed(query)
    found: list[str] = []
    for union in tree.find_all(exp.SetOperation):
        if union.args.get("distinct"):
            found += [table.name for table in union.find_all(exp.Table)]
    for select in tree.find_all(exp.Select):
        is_grouped = select.args.get("group") is not None or select.args.get("distinct") is not None
        if is_grouped or any(one.parent_select is select for one in select.find_all(exp.AggFunc)):
            found += [table.name for table in select.find_all(exp.Table) if table.parent_select is select]
    own = {cte.alias_or_name: cte for cte in tree.find_all(exp.CTE)}
    named = [
        table.name for name in found if name in own for table in own[name].find_all(exp.Table) if table.name not in own
    ]
    return tuple(dict.fromkeys([*(name for name in found if name not in own), *named]))


@cache
def ordered_in(query: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Where a query sorts rows or looks at their neighbours: how that is written, and the tables in it."""
    tree = _parsed(query)
    own = {cte.alias_or_name: cte for cte in tree.find_all(exp.CTE)}
    sorts = [
        (f"{word} BY", _within(one, own))
        for one in tree.find_all(exp.Query)
        for word in _SORTS
        if one.args.get(word.lower()) is not None
    ]
    ranks = [
        (f"{one.this.sql(_DIALECT)} OVER", _within(one.parent_select, own))
        for one in tree.find_all(exp.Window)
        if one.parent_select is not None
    ]
    return (*sorts, *ranks)


@cache
def joins_of(query: str) -> tuple[SqlJoin, ...]:
    """Every join of a query, and of those within it."""
    tree = _parsed(query)
    own = {cte.alias_or_name: cte for cte in tree.find_all(exp.CTE)}
    found: list[SqlJoin] = []
    for select in tree.find_all(exp.Select):
        # sqlglot calls it `from_` in newer versions.
        first = select.args.get("from_") or select.args.get("from")
        if first is None:
            continue
        left = _within(first, own)
        for join in select.args.get("joins") or ():
            right = _within(join.this, own)
            found.append(_join(join, left, right))
            left = tuple(dict.fromkeys([*left, *right]))
        where = select.args.get("where")
        for test in where.find_all(exp.In, exp.Exists) if where is not None else ():
            inner = test.args.get("query") if isinstance(test, exp.In) else test.this
            if inner is not None and test.parent_select is select:
                how = "anti" if isinstance(test.parent, exp.Not) else "semi"
                found.append(SqlJoin(how, left, _within(inner, own), frozenset(), has_range=False))
    return tuple(found)


def _join(join: exp.Join, left: tuple[str, ...], right: tuple[str, ...]) -> SqlJoin:
    side, kind = str(join.side or "").lower(), str(join.kind or "").lower()
    how = kind if kind in ("semi", "anti") else side if side in ("left", "right", "full") else "inner"
    condition = join.args.get("on")
    same = list(condition.find_all(exp.EQ, exp.NullSafeEQ)) if condition is not None else []
    equal = {column.name for one in same for column in one.find_all(exp.Column)}
    equal |= {column.name for column in join.args.get("using") or ()}
    has_range = condition is not None and condition.find(*_RANGES) is not None
    return SqlJoin(how, left, right, frozenset(equal), has_range)


def _within(part: exp.Expr, own: Mapping[str, exp.CTE], entered: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The tables in a part of a query; for those that the query defines itself, the tables in their queries."""
    found: list[str] = []
    for table in part.find_all(exp.Table):
        if table.name not in own:
            found.append(table.name)
        elif table.name not in entered:
            found += _within(own[table.name].this, own, entered | {table.name})
    return tuple(dict.fromkeys(found))


def check_expression(text: str) -> None:
    """Raise unless the text may stand where a column or a condition may."""
    _parsed(f"SELECT {text}")


@cache
def columns_of(schema: str) -> tuple[str, ...]:
    """The columns of a schema such as `id BIGINT, paid BOOLEAN`."""
    try:
        tree = _parsed(f"CREATE TABLE t ({schema})")
    except BadSql as error:
        raise BadSql(f"{error}: {_SCHEMA_FORM}") from None
    columns = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    if not columns or not all(isinstance(column, exp.ColumnDef) and column.kind for column in columns):
        raise BadSql(f"a column has no type: {_SCHEMA_FORM}")
    return tuple(column.name for column in columns)


def _parsed(text: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(_BY_WINDOW.sub(r"\1`window`\2", text), dialect=_DIALECT)
    except SqlglotError as error:
        raise BadSql(_first_line(error)) from error
    if tree is None:
        raise BadSql("nothing is there")
    return tree


def _first_line(error: SqlglotError) -> str:
    found = getattr(error, "errors", None)
    if not found:
        return str(error).splitlines()[0]
    one = found[0]
    near = str(one.get("highlight") or "").strip()
    # "Required keyword" is how the parser's own code is called: it says nothing to who wrote the SQL.
    told = (
        "something is missing" if one["description"].startswith("Required keyword") else one["description"].rstrip(".")
    )
    return told + (f" near {near!r}" if near else "")
