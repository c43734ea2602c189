"""Rows that would come, go or change, by key: what stands against what was computed in a scratch place.

A table's rows are compared by key; a stream's records by key and timestamp, as often as they are there. A row that is
there in both with another value, or a table's with another timestamp, changes.

    stands      o1 {paid: 20}    o2 {paid: null}
    would be    o1 {paid: 20}    o2 {paid: 35}     o3 {paid: null}      o2 changes, o3 comes, 1 stays
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from duckdb import DuckDBPyConnection

from rivermeet.assets.sql.query import CommittedState, QueryError
from rivermeet.expectations.judge.duck import create_view, database
from rivermeet.infra.delta.scan import quote_name
from rivermeet.pipelines import Node

KINDS = ("come", "go", "change")


@dataclass(frozen=True)
class Example:
    """A row that differs: its key, and its value as JSON as it stands and as it would be; None for no row."""

    kind: str
    key: str
    stands: str | None
    would_be: str | None


@dataclass(frozen=True)
class Difference:
    """What would become of a node's rows.

    Attributes
    ----------
    counts
        Rows that would come, go, and change.
    stays
        Rows that are the same.
    examples
        The first of those that differ, by key.
    """

    node: Node
    counts: dict[str, int]
    stays: int
    examples: Sequence[Example]

    @property
    def differs(self) -> bool:
        """Whether any row does."""
        return any(self.counts.values())


def compare(
    node: Node,
    stands: CommittedState,
    would_be: CommittedState,
    memory: str,
    spill: Path,
    examples: int = 10,
    among: Collection[int] | None = None,
) -> Difference:
    """Compare a node's rows in two places, each as of its newest commit.

    Parameters
    ----------
    memory, spill
        What DuckDB may take, such as ``1g``, and the folder for the rest.
    among
        The partitions whose rows are compared; all, if it is None.
    """
    name = (node.pipeline.name, node.name)
    with database(memory, spill) as connection:
        for view, state in (("stands", stands), ("would_be", would_be)):
            try:
                create_view(connection, f"of_{view}", state.relation(name))
            except QueryError:  # nothing is committed there: no rows
                connection.execute(f"CREATE TEMP TABLE {view} (k VARCHAR, ts BIGINT, v VARCHAR, n BIGINT)")
                continue
            _number(connection, node, view, among)
        connection.execute(_DIFFERENCES.format(at="ts" if not node.is_table else "0"))
        counts = dict(connection.execute("SELECT kind, count(*) FROM differences GROUP BY kind").fetchall())
        ((standing,),) = connection.execute("SELECT count(*) FROM stands").fetchall()
        rows = connection.execute(f"SELECT * FROM differences ORDER BY k, kind LIMIT {examples}").fetchall()
    found = {kind: counts.get(kind, 0) for kind in KINDS}
    return Difference(node, found, standing - found["go"] - found["change"], [Example(*row) for row in rows])


def _number(connection: DuckDBPyConnection, node: Node, view: str, among: Collection[int] | None) -> None:
    """The node's rows as key, timestamp and value, equal ones numbered."""
    key = ", ".join(f"{quote_name(c)} := {quote_name(c)}" for c in node.key)
    known = [row[0] for row in connection.execute(f"DESCRIBE of_{view}").fetchall()]
    values = [c for c in known if c not in node.key and c not in ("_timestamp", "_partition", "_offset")]
    value = ", ".join(f"{quote_name(c)} := {quote_name(c)}" for c in values)
    some = "" if among is None else f" WHERE _partition IN ({', '.join(map(str, among))})"
    connection.execute(
        f"CREATE TEMP TABLE {view} AS SELECT *, row_number() OVER (PARTITION BY k, ts, v) AS n FROM (SELECT "
        f"to_json(struct_pack({key}))::VARCHAR AS k, _timestamp AS ts, to_json(struct_pack({value}))::VARCHAR AS v "
        f"FROM of_{view}{some})"
    )


_DIFFERENCES = """
CREATE TEMP TABLE differences AS
WITH gone AS (
    SELECT k, v, {at} AS at, row_number() OVER (PARTITION BY k, {at} ORDER BY ts, v, n) AS i
    FROM stands ANTI JOIN would_be USING (k, ts, v, n)
), fresh AS (
    SELECT k, v, {at} AS at, row_number() OVER (PARTITION BY k, {at} ORDER BY ts, v, n) AS i
    FROM would_be ANTI JOIN stands USING (k, ts, v, n)
)
SELECT
    CASE WHEN gone.k IS NULL THEN 'come' WHEN fresh.k IS NULL THEN 'go' ELSE 'change' END AS kind,
    coalesce(gone.k, fresh.k) AS k, gone.v AS stands, fresh.v AS would_be
FROM gone FULL JOIN fresh ON gone.k = fresh.k AND gone.at = fresh.at AND gone.i = fresh.i
"""
