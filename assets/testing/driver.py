"""`TestDriver`: records into a pipeline's sources, rows out of its nodes; what TopologyTestDriver is to Kafka Streams.

    driver = TestDriver(PIPELINE)
    driver.pipe("orders", key="o1", value={"customer": "ada", "amount": 20.0}, at="2026-01-05T10:00")
    driver.advance("2h")
    driver.read("settled")      [Result(key='o1', value={'customer': 'ada', 'amount': 20.0, 'paid': None}, …)]

By default rows come from the reference joins: no engine, no Java, milliseconds. Held by ``tests/testing``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from rivermeet.assets.testing.by_reference import ByReference, Made, Result, Shape, fold
from rivermeet.assets.testing.expressions import DriverError, Evaluator
from rivermeet.pipelines import Node, Pipeline, Stream
from rivermeet.pipelines.rewrite import in_one_partition, rewrite
from rivermeet.pipelines.source import instant_ms
from rivermeet.pipelines.window import duration_ms

if TYPE_CHECKING:
    from rivermeet.assets.testing.by_engine import ByEngine

Epochs = Literal["each record", "one"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TestDriver:
    """Pipes records into a pipeline and reads what its nodes make of them.

    All records are in one partition, whatever is declared: stream time is one for the whole pipeline.

    Parameters
    ----------
    pipeline
        The declared pipeline; it is not changed, and nothing of its home is read.
    engine
        Whether the real operators compute, through real epochs in a scratch home; seconds for each epoch. Without it
        the reference joins do.
    epochs
        ``"each record"``: every record is an epoch of its own, run when it is piped. ``"one"``: what was piped since
        the last read is one epoch, in processing order; it runs when something is read.

    Raises
    ------
    DriverError
        If the pipeline has what the reference joins cannot do, with the way round.

    Examples
    --------
    >>> from rivermeet.pipelines import Files, Pipeline
    >>> shop = Pipeline("shop")
    >>> orders = shop.stream("orders", Files("none", "csv", {"id": "STRING", "who": "STRING", "at": "BIGINT"}),
    ...                      key=["id"], timestamp="at", value=["who"])
    >>> names = shop.global_table("names", Files("none", "csv", {"who": "STRING", "name": "STRING", "at": "BIGINT"}),
    ...                           key=["who"], timestamp="at", value=["name"])
    >>> named = orders.left_join(names, "named", key="who", select={"name": "right.name"})
    >>> driver = TestDriver(shop)
    >>> driver.pipe("names", key="a", value={"name": "Ada"}, at=1)
    >>> driver.pipe("orders", key="o1", value={"who": "a"}, at=5)
    >>> driver.read("named")
    [Result(key='o1', value={'name': 'Ada'}, timestamp=5)]
    """

    __test__ = False  # pytest takes a class of such a name for tests

    def __init__(self, pipeline: Pipeline, *, engine: bool = False, epochs: Epochs = "each record") -> None:
        if epochs not in ("each record", "one"):
            raise DriverError(f"epochs is {epochs!r}; give 'each record' or 'one'")
        self._pipeline = rewrite(pipeline, in_one_partition)
        self._epochs: Epochs = epochs
        self._nodes: ByReference | ByEngine
        if engine:
            from rivermeet.assets.testing.by_engine import ByEngine

            self._nodes = ByEngine(self._pipeline)
        else:
            self._nodes = ByReference(self._pipeline)
        self._now = 0
        self._waits = False
        self._read: dict[str, int] = {}
        evaluator = Evaluator()
        sources = (node for node in self._pipeline.nodes if node.source is not None)
        self._shapes = {node.name: Shape.of_source(node, evaluator) for node in sources}

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes that have records, inputs first."""
        return [node.name for node in self._pipeline.stored]

    def __enter__(self) -> TestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the scratch home of an engine's run."""
        self._nodes.close()

    def pipe(
        self,
        node: str,
        *,
        key: Any = None,
        value: Mapping[str, Any] | None = None,
        at: int | str | datetime | None = None,
    ) -> None:
        """Send a record to a source, as it is after the source's own expressions.

        Parameters
        ----------
        node
            Name of the source.
        key
            The key's column; a tuple or a mapping where it has several. None is a record without a key.
        value
            Column to value, None where one is left out. None is a tombstone, of a stream a record without a value.
        at
            Event time: epoch millis, an ISO timestamp (UTC where it says no zone) or a datetime. Default: the
            driver's time, which the latest record and `advance` have moved.

        Raises
        ------
        DriverError
            If the node is no source, or has other columns or types.
        """
        source = self._source(node)
        moment = self._now if at is None else _millis(at)
        if moment < 0:
            raise DriverError(f"'{node}': a record at {moment} ms lies before 1970, where Kafka has no timestamps")
        shape = self._shapes[node]
        made = Made(self._key(source, shape, key), self._value(source, shape, value), moment)
        self._now = max(self._now, moment)
        self._publish(source, made)

    def advance(self, by: str | int) -> None:
        """Move event time on by a duration: ``"1h"``, or ms; what waited for its window to close is emitted.

        Each source stream gets a record at the new time that has neither key nor value, as a window closes when stream
        time has passed it and in no other way. Profile ``"kafka-4"`` waits for a record with both.
        """
        self._now += duration_ms(by)
        for node in self._pipeline.nodes:
            if isinstance(node, Stream) and node.source is not None:
                self._publish(node, Made(None, None, self._now))

    def read(self, node: str) -> list[Result]:
        """The records of a node since it was last read, in order; also those of a source."""
        found = self._rows(node)
        since, self._read[node] = self._read.get(node, 0), len(found)
        return [_result(made) for made in found[since:]]

    def table(self, node: str) -> dict[Any, dict[str, Any]]:
        """The folded table of a node: key to the columns of its value, deleted rows left out.

        Raises
        ------
        DriverError
            If the node is a stream.
        """
        if not self._node(node).is_table:
            raise DriverError(f"'{node}' is a stream, and a stream is not folded; read its records")
        return {_plain(key): dict(made.value or {}) for key, made in fold(self._rows(node)).items()}

    def late(self, node: str) -> list[Result]:
        """Records that the node dropped so far because their window had closed, by timestamp, key and value."""
        self._settle()
        found = [_result(made) for made in self._nodes.late(self._node(node))]
        return sorted(found, key=lambda late: (late.timestamp, str(late.key), str(late.value)))

    def _rows(self, node: str) -> Sequence[Made]:
        self._settle()
        return self._nodes.rows(self._node(node))

    def _settle(self) -> None:
        if self._waits:
            self._waits = False
            self._nodes.run()

    def _publish(self, source: Node, made: Made) -> None:
        self._nodes.publish(source, [made])
        self._waits = True
        if self._epochs == "each record":
            self._settle()

    def _node(self, name: str) -> Node:
        try:
            return self._pipeline.node(name)
        except KeyError as error:
            raise DriverError(error.args[0]) from None

    def _source(self, name: str) -> Node:
        found = self._node(name)
        if found.source is None:
            sources = [node.name for node in self._pipeline.nodes if node.source is not None]
            raise DriverError(f"'{name}' is computed; records are piped into a source: {', '.join(sources)}")
        return found

    def _key(self, source: Node, shape: Shape, key: Any) -> tuple[Any, ...] | None:
        if key is None:
            return None
        names = shape.key.names
        if not isinstance(key, Mapping):
            cells = key if isinstance(key, tuple) else (key,)
            if len(cells) != len(names):
                raise DriverError(f"'{source.name}' has the key columns {', '.join(names)}, and {key!r} is given")
            key = dict(zip(names, cells, strict=True))
        lacking = [name for name in names if key.get(name) is None]
        if lacking:
            raise DriverError(f"'{source.name}': key column '{lacking[0]}' is null; give key=None for no key")
        return tuple(_cast(source, shape.key, key).values())

    def _value(self, source: Node, shape: Shape, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise DriverError(f"'{source.name}': value is {value!r}; give its columns: {', '.join(shape.value.names)}")
        return _cast(source, shape.value, value)


def _cast(source: Node, columns: pa.Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in given if name not in columns.names]
    if unknown:
        raise DriverError(f"'{source.name}' has no column '{unknown[0]}'; there are {', '.join(columns.names)}")
    found: dict[str, Any] = {}
    for column in columns:
        try:
            found[column.name] = pa.array([given.get(column.name)], column.type)[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DriverError(f"'{source.name}': column '{column.name}' is {column.type}: {error}") from None
    return found


def _result(made: Made) -> Result:
    return Result(_plain(made.key), None if made.value is None else dict(made.value), made.timestamp)


def _plain(key: tuple[Any, ...] | None) -> Any:
    return key[0] if key is not None and len(key) == 1 else key


def _millis(at: int | str | datetime) -> int:
    if isinstance(at, datetime):
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    return instant_ms("at", at) if isinstance(at, str) else at
