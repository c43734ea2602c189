"""table ⋈ table on the key, against a running application: ``joins/shadow/tables.py``, where both share the key."""

from __future__ import annotations

from rivermeet.joins.shadow.answers import Answers, Compared
from rivermeet.joins.shadow.compare import STALE_LEFT, Cause
from rivermeet.joins.shadow.tables import compare_tables
from rivermeet.pipelines import TableTableJoin

STALE_RIGHT = Cause("stale_right", "the row joins a right row that was replaced or deleted since")
CAUSES = (STALE_LEFT, STALE_RIGHT)


def compare(join: TableTableJoin, answers: Answers) -> Compared:
    """Compare the tables that both answers fold to."""
    return compare_tables(join, answers, None, STALE_RIGHT.id)
