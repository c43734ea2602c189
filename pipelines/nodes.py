"""Streams, tables and global tables, with the verbs of Kafka Streams in snake case.

A node is a frozen value: its name, its key and value columns, and where its records come from (files, or a join).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, overload

from pipelines.errors import DeclarationError, listed
from pipelines.joins import (
    Bootstrap,
    ForeignKeyJoin,
    How,
    Join,
    Semantics,
    StreamGlobalJoin,
    StreamStreamJoin,
    ValueExpr,
)
from pipelines.source import Source
from pipelines.window import JoinWindow

if TYPE_CHECKING:
    from pipelines.pipeline import Pipeline

Select = Mapping[str, ValueExpr]
RESERVED = ("_timestamp", "_partition", "_offset")
"""Columns that a folded table adds to those of key and value."""


@dataclass(frozen=True, eq=False)
class Node:
    """One changelog of a pipeline.

    Attributes
    ----------
    key
        Key columns with their Spark SQL types.
    value
        Names of the value columns.
    partitions
        Number of partitions; 0 for a global table, which has one copy everywhere.
    origin
        The files or the join that the records come from.
    """

    pipeline: Pipeline = field(repr=False)
    name: str
    key: Mapping[str, str]
    value: tuple[str, ...]
    partitions: int
    origin: Source | Join = field(repr=False)
    description: str = ""

    kind = "node"

    @property
    def join_spec(self) -> Join | None:
        """The join that this node is the result of, or None for a source."""
        return self.origin if isinstance(self.origin, Join) else None

    @property
    def source(self) -> Source | None:
        """The source that this node is read from, or None for a join's result."""
        return self.origin if isinstance(self.origin, Source) else None

    @property
    def is_table(self) -> bool:
        """Whether the changelog is folded into a table."""
        return self.kind != "stream"

    def _refuse(self, name: str, problem: str) -> DeclarationError:
        return DeclarationError(self.pipeline.name, name, problem)


class Stream(Node):
    """A record stream: every record is an event of its own."""

    kind = "stream"

    def join(self, other: Stream | GlobalTable, name: str | None = None, **options: Any) -> Stream:
        """Inner join; options as for `left_join`."""
        return self._join("inner", other, name, **options)

    def left_join(self, other: Stream | GlobalTable, name: str | None = None, **options: Any) -> Stream:
        """Join that keeps left records without a partner.

        Parameters
        ----------
        other
            A stream (give ``window``) or a global table (give ``key``).
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            ``select``: output column to an SQL expression over ``left.*`` and ``right.*``, or to a function of the
            two columns; default all value columns of both. ``semantics``: profile, default ``"3.1"``.
            ``window``: `JoinWindow`. ``key``: SQL over the left record's columns, or one per key column of the
            global table. ``bootstrap``: ``"epoch"`` loads an epoch's updates of the global table before its facts,
            ``"timestamp"`` interleaves them.
        """
        return self._join("left", other, name, **options)

    def outer_join(self, other: Stream, name: str | None = None, **options: Any) -> Stream:
        """Join that keeps records of both sides without a partner; streams only. Options as for `left_join`."""
        return self._join("outer", other, name, **options)

    def _join(self, how: How, other: Node, name: str | None, **options: Any) -> Stream:
        name = name or f"{self.name}_{other.name}"
        if isinstance(other, Stream):
            spec: Join = _stream_stream(self, how, other, name, **options)
        elif isinstance(other, GlobalTable):
            if how == "outer":
                raise self._refuse(name, "a stream and a global table have no outer join; choose join or left_join")
            spec = _stream_global(self, how, other, name, **options)
        else:
            raise self._refuse(
                name,
                f"a stream joins a stream or a global table, and '{other.name}' is a {other.kind}; "
                "declare it with stream() or global_table()",
            )
        return self.pipeline._add(Stream(self.pipeline, name, self.key, tuple(spec.select), self.partitions, spec))


class Table(Node):
    """A table: a record replaces the one of the same key, a tombstone removes it."""

    kind = "table"

    def join(self, other: Table, name: str | None = None, **options: Any) -> Table:
        """Inner join; options as for `left_join`."""
        return self._join("inner", other, name, **options)

    def left_join(self, other: Table, name: str | None = None, **options: Any) -> Table:
        """Join on a foreign key that keeps left rows without a partner.

        Parameters
        ----------
        other
            The table that the foreign key points to.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            ``foreign_key``: SQL over the left record's columns, or one per key column of ``other``. ``select`` and
            ``semantics`` as for streams.
        """
        return self._join("left", other, name, **options)

    def outer_join(self, other: Table, name: str | None = None, **options: Any) -> Table:
        """Refused for foreign keys: a right row without subscribers has no left key to be written under."""
        return self._join("outer", other, name, **options)

    def _join(self, how: How, other: Node, name: str | None, **options: Any) -> Table:
        name = name or f"{self.name}_{other.name}"
        if not isinstance(other, Table):
            raise self._refuse(
                name, f"a table joins a table, and '{other.name}' is a {other.kind}; declare it with table()"
            )
        if how == "outer":
            raise self._refuse(name, "a foreign-key join has no outer form; choose join or left_join")
        spec = _foreign_key(self, how, other, name, **options)
        return self.pipeline._add(Table(self.pipeline, name, self.key, tuple(spec.select), self.partitions, spec))


class GlobalTable(Node):
    """A table that every partition sees whole: looked up by any expression, never triggering."""

    kind = "global_table"


def _stream_stream(
    left: Stream,
    how: How,
    right: Stream,
    name: str,
    *,
    window: JoinWindow | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
) -> StreamStreamJoin:
    if window is None:
        raise left._refuse(name, "a stream-stream join needs window=JoinWindow(before, after, grace)")
    if left.partitions != right.partitions or dict(left.key) != dict(right.key):
        raise left._refuse(
            name,
            f"not co-partitioned: '{left.name}' has {left.partitions} partitions and key {dict(left.key)}, "
            f"'{right.name}' has {right.partitions} partitions and key {dict(right.key)}; "
            "declare both with the same key columns, types and partitions",
        )
    select, semantics = _checked(left, right, name, select, semantics)
    return StreamStreamJoin(how, left, right, select, semantics, window)


def _stream_global(
    left: Stream,
    how: How,
    right: GlobalTable,
    name: str,
    *,
    key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
    bootstrap: Bootstrap = "epoch",
) -> StreamGlobalJoin:
    if bootstrap not in get_args(Bootstrap):
        raise left._refuse(name, f"bootstrap={bootstrap!r} is not one of {listed(get_args(Bootstrap))}")
    mapper = _mapped(left, right, name, "key", key)
    select, semantics = _checked(left, right, name, select, semantics)
    return StreamGlobalJoin(how, left, right, select, semantics, mapper, bootstrap)


def _foreign_key(
    left: Table,
    how: How,
    right: Table,
    name: str,
    *,
    foreign_key: str | Mapping[str, str] | None = None,
    select: Select | None = None,
    semantics: Semantics = "3.1",
) -> ForeignKeyJoin:
    extractor = _mapped(left, right, name, "foreign_key", foreign_key)
    select, semantics = _checked(left, right, name, select, semantics)
    return ForeignKeyJoin(how, left, right, select, semantics, extractor)


def _mapped(
    left: Node, right: Node, name: str, option: str, given: str | Mapping[str, str] | None
) -> Mapping[str, str]:
    """One expression per key column of ``right``."""
    columns = list(right.key)
    if isinstance(given, str) and len(columns) == 1:
        return {columns[0]: given}
    if isinstance(given, Mapping) and set(given) == set(columns):
        return {column: given[column] for column in columns}
    raise left._refuse(
        name,
        f"{option}={given!r} must give one SQL expression for each key column of '{right.name}': {listed(columns)}",
    )


@overload
def _checked(
    left: Node, right: Node, name: str, select: Select | None, semantics: Semantics
) -> tuple[Select, Semantics]: ...
@overload
def _checked(left: Node, right: Node, name: str, select: Select | None, semantics: str) -> tuple[Select, Semantics]: ...
def _checked(left: Node, right: Node, name: str, select: Select | None, semantics: str) -> tuple[Select, Any]:
    if semantics != "3.1":
        raise left._refuse(name, f"semantics={semantics!r}: this version has only the default profile '3.1'")
    if select is None:
        both = sorted(set(left.value) & set(right.value))
        if both:
            raise left._refuse(
                name,
                f"'{left.name}' and '{right.name}' both have {listed(both)}; "
                "give select={output column: expression over left.* and right.*}",
            )
        select = {c: f"left.`{c}`" for c in left.value} | {c: f"right.`{c}`" for c in right.value}
    clash = [c for c in select if c in left.key or c in RESERVED]
    if not select or clash:
        raise left._refuse(
            name,
            "select has no columns; name at least one"
            if not select
            else f"select names {listed(clash)}, which the result has already (key columns {listed(left.key)}, "
            f"and {listed(RESERVED)}); choose other names",
        )
    return select, semantics
