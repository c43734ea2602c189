"""A pipeline of flights and their planes in a home of its own, its changelogs and plans written by hand, without Spark.

| node | epoch | records |
|---|---|---|
| planes | 1 | N1, N2; 2: N3, and N2 is deleted |
| flights | 1 | 10 → N1, 11 → N3, 12 → N9, 13 → null |
| fleet, inner | 1 | 10 with N1; 2: 11 with N3, triggered by the plane |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rivermeet.assets.project import Project
from rivermeet.assets.why.changelogs import Changelogs
from rivermeet.assets.why.records import Expressions
from rivermeet.assets.why.walk import Walk
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import append_records, last_note
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.epochs.plan import EpochPlan, InputSlice
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.files.file_list import FileList, PlannedFile
from rivermeet.pipelines import Files, Node, Pipeline

PLANES = """tail,built,ts
N1,1987,5
N2,1990,5
N30,1991,5
"""
MORE_PLANES = """tail,built,ts
N2,,20
N3,1999,20
N4,x,20
"""
FLIGHTS = """id,tail,ts
10,N1,7
11,N3,7
12,N9,7
13,,7
"""
TEXT, INT, LONG = pa.string(), pa.int32(), pa.int64()
PLACE = [("timestamp", LONG), ("partition", INT), ("offset", LONG), ("epoch", LONG)]
READ = [*PLACE, ("origin", pa.struct([("file", TEXT), ("line", LONG)]))]
PLANE = pa.schema([("key", pa.struct([("tail", TEXT)])), ("value", pa.struct([("built", INT)])), *READ])
FLIGHT = pa.schema([("key", pa.struct([("id", INT)])), ("value", pa.struct([("tail", TEXT)])), *READ])
TRIGGER = pa.struct([("side", TEXT), ("partition", INT), ("offset", LONG)])
ROW = pa.schema(
    [
        ("key", pa.struct([("id", INT)])),
        ("value", pa.struct([("tail", TEXT), ("built", INT)])),
        *PLACE,
        ("trigger", TRIGGER),
    ]
)
LETTER = pa.schema(
    [
        ("file", TEXT),
        ("line", LONG),
        ("position", INT),
        ("text", TEXT),
        ("header", TEXT),
        ("reason", TEXT),
        ("epoch", LONG),
    ]
)


def pipeline() -> Pipeline:
    """Planes, flights, and the flights with their planes."""
    made = Pipeline("small")
    given: Any = {"timestamp": "ts", "partitions": 1}
    planes = made.table(
        "planes",
        Files("planes/*.csv", "csv", {"tail": "STRING", "built": "INT", "ts": "BIGINT"}),
        key=["tail"],
        value=["built"],
        tombstone="built IS NULL",
        **given,
    )
    flights = made.table(
        "flights",
        Files("flights/*.csv", "csv", {"id": "INT", "tail": "STRING", "ts": "BIGINT"}),
        key=["id"],
        value=["tail"],
        **given,
    )
    flights.join(planes, "fleet", foreign_key="tail")
    return made


class Small:
    """The home below a folder; ``write`` adds an epoch to a node."""

    def __init__(self, folder: Path, engine: Settings | None = None) -> None:
        self.pipeline = pipeline()
        settings = Settings.from_env({"RIVERMEET_HOME": str(folder)})
        self.project = Project(settings, Sessions(engine or settings), (self.pipeline,))
        self.data = folder / "data"
        self.fleet, self.planes, self.flights = (self.pipeline.node(name) for name in ("fleet", "planes", "flights"))

    def walk(self) -> Walk:
        return Walk(Changelogs(self.project), Expressions(None))

    def file(self, name: str, text: str) -> str:
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def write(
        self,
        node: Node,
        epoch: int,
        schema: pa.Schema,
        rows: Sequence[tuple[Any, ...]],
        files: Sequence[str] = (),
        inputs: dict[str, InputSlice] | None = None,
    ) -> None:
        context = self.project.context(self.pipeline)
        paths = context.paths(node)
        lines = [dict(zip(schema.names, row, strict=True)) for row in rows]
        ends = {0: max(line["offset"] for line in lines)}
        times = {0: max(line["timestamp"] for line in lines)}
        planned = tuple(_planned(Path(file)) for file in files)
        plan = EpochPlan(
            pipeline="small",
            node=node.name,
            incarnation=1,
            epoch=epoch,
            reads=FileList(files=planned) if inputs is None else None,
            inputs=inputs or {},
        )
        context.log.write(node.name, 1, epoch, "plan", plan.model_dump_json())
        note = CommitNote(incarnation=1, epoch=epoch, ends=ends, times=times, stream_time=times)
        append_records(pa.Table.from_pylist(lines, schema), paths.changelog, paths.app_id("changelog", 1), note)

    def letters(self, node: Node, rows: Sequence[tuple[Any, ...]]) -> None:
        path = self.project.context(self.pipeline).paths(node).dead_letter
        lines = [dict(zip(LETTER.names, row, strict=True)) for row in rows]
        found = last_note(path)
        note = CommitNote(incarnation=1, epoch=found[1].epoch + 1 if found else 1, ends={})
        append_records(pa.Table.from_pylist(lines, LETTER), path, "letters", note)


def _planned(path: Path) -> PlannedFile:
    status = path.stat()
    return PlannedFile(path=str(path), length=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def line(file: str, number: int) -> dict[str, Any]:
    return {"file": file, "line": number}


def small(folder: Path, engine: Settings | None = None) -> Small:
    """The home with all of its epochs, on the engine of tests where one is given."""
    home = Small(folder, engine)
    first, more = home.file("planes/1.csv", PLANES), home.file("planes/2.csv", MORE_PLANES)
    flown = home.file("flights/1.csv", FLIGHTS)
    built = [("N1", 1987), ("N2", 1990), ("N30", 1991)]
    rows = [({"tail": tail}, {"built": year}, 5, 0, n, 1, line(first, n + 2)) for n, (tail, year) in enumerate(built)]
    home.write(home.planes, 1, PLANE, rows, [first])
    rows = [
        ({"tail": "N2"}, None, 20, 0, 3, 2, line(more, 2)),
        ({"tail": "N3"}, {"built": 1999}, 20, 0, 4, 2, line(more, 3)),
    ]
    home.write(home.planes, 2, PLANE, rows, [more])
    home.letters(home.planes, [(more, None, 1, "N4,x,20", "tail,built,ts", "column 'built': 'x' is not INT", 2)])
    tails = ["N1", "N3", "N9", None]
    rows = [({"id": 10 + n}, {"tail": tail}, 7, 0, n, 1, line(flown, n + 2)) for n, tail in enumerate(tails)]
    home.write(home.flights, 1, FLIGHT, rows, [flown])
    left, right = InputSlice(version=0, after={}, upto={0: 3}), InputSlice(version=0, after={}, upto={0: 2})
    trigger = {"side": "left", "partition": 0, "offset": 0}
    rows = [({"id": 10}, {"tail": "N1", "built": 1987}, 7, 0, 0, 1, trigger)]
    home.write(home.fleet, 1, ROW, rows, inputs={"left": left, "right": right})
    trigger = {"side": "right", "partition": 0, "offset": 4}
    rows = [({"id": 11}, {"tail": "N3", "built": 1999}, 20, 0, 1, 2, trigger)]
    left = InputSlice(version=0, after={0: 3}, upto={0: 3})
    right = InputSlice(version=1, after={0: 2}, upto={0: 4})
    home.write(home.fleet, 2, ROW, rows, inputs={"left": left, "right": right})
    return home
