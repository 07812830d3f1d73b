"""SQL as text: which tables a query reads, and whether it is SQL at all. Spark is not needed for that."""

from __future__ import annotations

from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_DIALECT = "spark"
_SCHEMA_FORM = "write a schema as in: id BIGINT, paid BOOLEAN, at TIMESTAMP"


class BadSql(ValueError):
    """Not SQL; says where."""


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
    """The tables whose rows a query adds up, counts or groups, where it names them directly."""
    tree = _parsed(query)
    found: list[str] = []
    for select in tree.find_all(exp.Select):
        is_grouped = select.args.get("group") is not None
        if is_grouped or any(one.parent_select is select for one in select.find_all(exp.AggFunc)):
            found += [table.name for table in select.find_all(exp.Table) if table.parent_select is select]
    own = {cte.alias_or_name: cte for cte in tree.find_all(exp.CTE)}
    named = [
        table.name for name in found if name in own for table in own[name].find_all(exp.Table) if table.name not in own
    ]
    return tuple(dict.fromkeys([*(name for name in found if name not in own), *named]))


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
        tree = sqlglot.parse_one(text, dialect=_DIALECT)
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
