"""table ⋈ table on a foreign key, against a running application: as ``joins/shadow/tables.py`` says.

``stale_foreign_key`` is the known fault of Kafka Streams: an order is updated with its foreign key unchanged while its
customer's tombstone is on its way. The tombstone's answer carries the hash of the old order and is dropped; the new
order's subscription finds no customer, and answers nothing (SubscriptionSendProcessorSupplier, released 4.x). Held by
``tests/joins/shadow/test_tables.py``.
"""

from __future__ import annotations

from rivermeet.joins.shadow.answers import Answers, Compared
from rivermeet.joins.shadow.compare import STALE_LEFT, Cause
from rivermeet.joins.shadow.tables import compare_tables
from rivermeet.pipelines import ForeignKeyJoin

STALE_FOREIGN_KEY = Cause(
    "stale_foreign_key",
    "the row joins a right row that was replaced or deleted since, and was not answered again: a known fault of "
    "foreign-key joins, when the left row is updated while the answer to the right one is on its way",
)
CAUSES = (STALE_LEFT, STALE_FOREIGN_KEY)


def compare(join: ForeignKeyJoin, answers: Answers) -> Compared:
    """Compare the tables that both answers fold to."""
    return compare_tables(join, answers, join.foreign_key, STALE_FOREIGN_KEY.id)
