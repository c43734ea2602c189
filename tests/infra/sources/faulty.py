"""Sources of each kind that come to harm: the same table of keys, in a topic, a Delta table, or a database.

| | |
|---|---|
| ``put("b")`` | a row of this key comes |
| ``lose()`` | what was not read yet can be read no more, with key c; then key d comes |
| ``go()``, ``return_()`` | what is read is deleted; something else stands under its name, with keys x and y |
| ``tidy()`` | files are put together; no row changes |
| ``says_so(error)`` | `rivermeet check` finds the same, where a kind has it |
| ``has_noted(plan)`` | the plan of the epoch after a loss says what it lacks |
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.kafka.refusals import (
    RecordsGoneError,
    TopicMissingError,
    TopicPositionLostError,
    TopicRefusedError,
    TopicRemadeError,
)
from rivermeet.infra.postgres.refusals import PostgresTableMissingError, SlotLostError
from rivermeet.infra.sources.delta import ingest as delta_ingest
from rivermeet.infra.sources.delta.refusals import (
    DeltaTableMissingError,
    TablePositionLostError,
    TableRemadeError,
    VersionsGoneError,
)
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.kafka import ingest as topic_ingest
from rivermeet.infra.sources.kafka.topic import topic_id
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import JSON, DeltaTable, Kafka, Pipeline, Table, Text
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.reads.delta import TableChanges
from tests.infra.sources.delta.shed import Shed
from tests.infra.sources.kafka.town import Town
from tests.infra.sources.place import Place
from tests.infra.sources.postgres.base import Base

Refused = tuple[type[RivermeetError], str]
"""The class of a refusal, and what its sentence says."""


class Faulty(Protocol):
    """A source of one kind.

    Attributes
    ----------
    gone, missing, remade
        How a run is refused that finds records lost, no source, and another source.
    cure
        The command that a refusal names.
    """

    @property
    def place(self) -> Place: ...
    @property
    def table(self) -> Table: ...

    gone: ClassVar[Refused]
    missing: ClassVar[Refused]
    remade: ClassVar[Refused]
    cure: ClassVar[str]

    def put(self, *keys: str) -> None: ...
    def says_so(self, error: type[RivermeetError]) -> None: ...
    def has_noted(self, plan: EpochPlan) -> bool: ...
    def lose(self) -> None: ...
    def go(self) -> None: ...
    def return_(self) -> None: ...


def cured(source: Faulty) -> EpochResult | None:
    """Do what the command of the refusal does."""
    if source.cure == "resnapshot":
        return source.place.rebuild(source.table)
    return source.place.run(source.table, accept_loss=True)


def keys(source: Faulty) -> str:
    """Keys of the folded table; the changelog has no record twice."""
    changes = [repr((row["key"], row["value"], row["timestamp"])) for row in source.place.world.rows(source.table)]
    assert len(changes) == len({*changes}), changes
    return "".join(key for key, *_ in source.place.folded(source.table))


@dataclass
class Topic:
    """One partition of a topic; retention removes records of it."""

    place: Town
    table: Table = field(init=False)
    sent: int = 0
    gone: ClassVar[Refused] = (
        RecordsGoneError,
        r"0: [01] to [12]: its retention is shorter|removed records of its slice while it was read",
    )
    missing: ClassVar[Refused] = TopicMissingError, "there is no topic"
    remade: ClassVar[Refused] = TopicRemadeError, "was deleted and recreated"
    unplaced: ClassVar[Refused] = TopicPositionLostError, "no plan of epoch 1"
    while_read = TopicRefusedError
    ingest = topic_ingest
    cure: ClassVar[str] = "accept-loss"

    def __post_init__(self) -> None:
        self.place.make("orders")
        reads = Kafka(self.place.named("orders"), key=Text("id"), value=JSON({"n": "BIGINT"}))
        self.table = Pipeline("shop").table("orders", reads)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.place.send("orders", (0, key, {"n": self.sent}, 1_000 + self.sent))
            self.sent += 1

    def lose(self) -> None:
        self.put("c")
        self.place.remove_before("orders", {0: self.sent})
        self.put("d")

    def go(self) -> None:
        """Until the broker has forgotten it."""
        self.place.delete("orders")
        for _ in range(200):
            try:
                topic_id(self.place.connection, self.place.named("orders"))
            except TopicMissingError:
                return
            time.sleep(0.05)
        raise TimeoutError("orders")

    def says_so(self, error: type[RivermeetError]) -> None:
        pass

    def has_noted(self, plan: EpochPlan) -> bool:
        return isinstance(plan.reads, TopicSlice) and plan.reads.lost == {0: (1, 3)}

    def tidy(self) -> None:
        pass

    def return_(self) -> None:
        """Its offsets are as good as those of the old one: only its id shows it."""
        self.place.make("orders")
        self.put("x", "y")


@dataclass
class Versions:
    """Versions of a Delta table; VACUUM removes files of them."""

    place: Shed
    changes: TableChanges
    table: Table = field(init=False)
    put_rows: int = 0
    gone: ClassVar[Refused] = VersionsGoneError, "cannot be read any longer|needs a file"
    missing: ClassVar[Refused] = DeltaTableMissingError, "there is no Delta table at"
    remade: ClassVar[Refused] = TableRemadeError, "was deleted and recreated"
    unplaced: ClassVar[Refused] = TablePositionLostError, "no plan of epoch 1"
    while_read = RivermeetError
    ingest = delta_ingest
    cure: ClassVar[str] = "accept-loss"

    def __post_init__(self) -> None:
        reads = DeltaTable("orders", changes=self.changes, schema={"id": "STRING", "n": "BIGINT"})
        self.table = Pipeline("shop").table("orders", reads, key=["id"], partitions=1)

    def put(self, *keys: str, mode: str = "append") -> None:
        self.place.put(*((key, self.put_rows + n) for n, key in enumerate(keys)), fed=True, mode=mode)
        self.put_rows += len(keys)

    def lose(self) -> None:
        """What was added and not read is compacted, or what was changed is written over."""
        if self.changes == "append":
            self.put("c")
            self.place.table().optimize.compact()
        else:
            self.put("c", mode="overwrite")
        self.place.vacuum()
        self.put("d")

    def says_so(self, error: type[RivermeetError]) -> None:
        pass

    def has_noted(self, plan: EpochPlan) -> bool:
        assert isinstance(plan.reads, VersionRange)
        return plan.reads.passed == (1, 2) if self.changes == "append" else plan.reads.lost is not None

    def tidy(self) -> None:
        self.place.table().optimize.compact()

    def go(self) -> None:
        shutil.rmtree(self.place.path())

    def return_(self) -> None:
        self.put("x")
        self.put("y")


@dataclass
class Rows:
    """A table of a database, whose log is held by a slot."""

    place: Base
    table: Table = field(init=False)
    gone: ClassVar[Refused] = SlotLostError, r"slot rivermeet_shop_\w+ is gone"
    missing: ClassVar[Refused] = PostgresTableMissingError, "there is no table"
    remade: ClassVar[Refused] = PostgresTableMissingError, "dropped and recreated"
    cure: ClassVar[str] = "resnapshot"

    def __post_init__(self) -> None:
        self._make()
        self.table = Pipeline("shop").table(
            "orders", self.place.table("orders", {"id": "STRING", "n": "BIGINT"}), partitions=1
        )

    def _make(self) -> None:
        self.place.do("CREATE TABLE orders (id text PRIMARY KEY, n bigserial)")

    def put(self, *keys: str) -> None:
        self.place.do(*(f"INSERT INTO orders (id) VALUES ('{key}')" for key in keys))

    def lose(self) -> None:
        self.place.drop_slots()
        self.place.do("DELETE FROM orders WHERE id = 'b'")
        self.put("c", "d")

    def says_so(self, error: type[RivermeetError]) -> None:
        step = self.place.step(self.table)
        with step.database.open_connection() as connection:
            assert error in [type(problem) for problem in step.problems(connection, step.position(step.note()))]

    def has_noted(self, plan: EpochPlan) -> bool:
        return plan.incarnation == 2 and self.place.slots() == 1

    def go(self) -> None:
        self.place.do("DROP TABLE orders")

    def return_(self) -> None:
        self._make()
        self.put("x", "y")


def append(shed: Shed) -> Versions:
    return Versions(shed, "append")


def feed(shed: Shed) -> Versions:
    return Versions(shed, "feed")


KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "topic": ("town", Topic),
    "append": ("shed", append),
    "feed": ("shed", feed),
    "database": ("base", Rows),
}
"""Kind of source to the fixture of its place."""


def undisturbed(table: Table) -> Table:
    """Another node that reads the same."""
    return replace(table, name="whole")
