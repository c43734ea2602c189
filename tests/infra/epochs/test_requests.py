"""What a small epoch asks of the engine: most of its time is the engine planning what it is asked.

A request is analysed, planned and answered, a quarter of a second in a busy engine; ten small nodes made some 140 of
them a run. One more has to be meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.core import SparkConnectClient

from rivermeet.infra.engine.session import new_session
from rivermeet.pipelines import Node, Pipeline, count, expr
from tests.joins.epochs import batch
from tests.world import World

PIPELINE = Pipeline("requests")
_DECLARED: dict[str, Any] = {"key": ["k"], "value": ["v"], "timestamp": "ts", "partitions": 2}
A = PIPELINE.stream("a", batch.FILES, **_DECLARED)
C, D = (PIPELINE.table(name, batch.FILES, **_DECLARED) for name in "cd")
BOTH = {"l": "left.v", "r": "right.v"}
#   node, and of its second epoch with its fold: analyses, executions; of these, all but the last keep a frame
ASKED: list[tuple[Node, int, int]] = [
    (A.filter("v > 'k1'", "stream_filter"), 0, 1),
    (A.map_values({"w": "upper(v)"}, "mapped"), 0, 1),
    (C.filter("v > 'k1'", "table_filter"), 0, 1),
    (C.outer_join(D, "tables", select=BOTH), 0, 1),
    (C.left_join(D, "foreign", foreign_key="v", select=BOTH), 0, 2),
    (C.group_by({"v": expr("v", "STRING")}).aggregate({"n": count()}, "counted", 2), 1, 2),
]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """What is asked of the engine meanwhile, by kind."""
    asked: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_analyze", "_execute_and_fetch_as_iterator"):
            given = getattr(SparkConnectClient, name)

            def counting(*args: Any, _given: Any = given, _name: str = name, **options: Any) -> Any:
                asked[_name] += 1
                return _given(*args, **options)

            patched.setattr(SparkConnectClient, name, counting)
        yield asked


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> World:
    made = World(tmp_path_factory.mktemp("requests"), spark, new_session(spark), dict.fromkeys("acd", batch.TYPES))
    for at in (0, 4):
        for node in (A, C, D):
            made.publish(node, [((f"k{at + n}",), (f"k{n}",), at + n, n % 2) for n in range(4)])
        if not at:
            for node, *_ in ASKED:
                made.run(node)
    return made


@pytest.mark.parametrize(("node", "analyses", "executions"), ASKED, ids=[node.name for node, *_ in ASKED])
def test_a_small_epoch_asks_little(world: World, node: Node, analyses: int, executions: int) -> None:
    with counted() as asked:
        result = world.run(node)
    assert result is not None and result.rows, "it has something to do"
    assert (asked["_analyze"], asked["_execute_and_fetch_as_iterator"]) == (analyses, executions)
