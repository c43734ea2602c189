"""What the terminal shows: a pipeline's status, and the first rows of its results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from assets.quality.quality_table import last_states
from assets.refused.states import states
from expectations.report.words import span
from infra.delta.io import last_note, read
from infra.delta.lines import opened
from infra.epochs.plan import CommitNote
from pipelines import Kafka, Node, Pipeline, Postgres
from pipelines.sink import TopicSink

if TYPE_CHECKING:
    from assets.epoch.platform import Platform
    from assets.refused.states import HeldState
    from infra.kafka.lag import PartitionLag
    from infra.sources.postgres.lag import WalLag

FIRST_ROWS = 5


def table(header: list[str], lines: list[list[Any]]) -> str:
    """Columns of text, aligned; numbers to the right."""
    texts = [header, *([_text(cell) for cell in line] for line in lines)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(header))]
    numeric = [all(isinstance(line[i], int | None) for line in lines) for i in range(len(header))]

    def row(cells: list[str]) -> str:
        pairs = zip(cells, widths, numeric, strict=True)
        return "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in pairs).rstrip()

    return "\n".join([row(header), row(["-" * w for w in widths]), *map(row, texts[1:])])


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def status_table(platform: Platform, pipeline: Pipeline) -> str:
    """Per node: last epoch, rows, records not read yet, and the state of its checks; read without Spark."""
    runner = platform.runner(pipeline)
    held = {node.name: [state for state in states(runner, node) if state.open] for node in pipeline.stored}
    topics = {node.name: _TopicLag.of(platform, node) for node in pipeline.stored if _reads_topic(node)}
    tables = {node.name: _TableLag.of(platform, node) for node in pipeline.stored if _reads_table(node)}
    asked: Mapping[str, _TopicLag | _TableLag] = {**topics, **tables}
    lines = [_status(platform, node, held[node.name], asked.get(node.name)) for node in pipeline.stored]
    header = ["node", "kind", "epoch", "rows", "lag", "late", "dead", "checks"]
    way = f"\nheld epochs: rivermeet quarantine show {pipeline.name}" if any(held.values()) else ""
    rejected = {node.name: _rejected(platform, node) for node in pipeline.stored if node.source}
    for name, refusal in rejected.items():
        way += f"\n{name}: {refusal}" if refusal else ""
    way += "".join(f"\n{line}" for node in pipeline.stored if (line := _behind(platform, node)))
    way += "".join(f"\n{line}" for name, lag in asked.items() for line in lag.lines(name))
    way += "".join(f"\n{_delivered(platform, sink)}" for sink in pipeline.sinks)
    return f"{pipeline.name}\n{table(header, lines)}{way}"


def _rejected(platform: Platform, node: Node) -> str | None:
    """Where the bad rows lie that the source's newest epoch was refused for; None where none is, or one came since."""
    paths = platform.runner(node.pipeline).paths(node)
    found, kept = last_note(paths.changelog), opened(paths.rejected)
    if kept is None:
        return None
    rows = kept.to_pyarrow_dataset().to_table(columns=["epoch"])
    epoch = max(rows["epoch"].to_pylist(), default=None)
    if epoch is None or (found is not None and found[1].epoch >= epoch):
        return None
    bad = f"{rows.num_rows:,} bad row{'s' if rows.num_rows > 1 else ''}"
    return f"epoch {epoch} was refused: {bad}, with file, line and reason, in {paths.rejected}"


def _delivered(platform: Platform, sink: TopicSink) -> str:
    """How far the topic of a sink is."""
    from assets.sinks.delivery import sink_lag

    lag = sink_lag(platform, sink)
    behind = f"{lag.due} behind" if lag.epochs else "all of it"
    return f"{sink.node.name}: delivered to topic '{sink.topic}' up to epoch {lag.epoch}, {behind}"


def _reads_topic(node: Node) -> bool:
    return node.source is not None and isinstance(node.source.reads, Kafka)


@dataclass(frozen=True)
class _TopicLag:
    """How far a source is behind its topic, or why nobody knows; the broker is asked once."""

    topic: str
    partitions: Sequence[PartitionLag] = ()
    refusal: str = ""

    @classmethod
    def of(cls, platform: Platform, node: Node) -> _TopicLag:
        from infra.epochs.refusal import EpochRefusedError
        from infra.settings import SettingsError

        assert node.source is not None
        topic = node.source.topic.topic
        try:
            return cls(topic, platform.topic_lag(node))
        except (EpochRefusedError, SettingsError) as refusal:
            return cls(topic, refusal=str(refusal))

    @property
    def behind(self) -> int | None:
        """Offsets that were not read yet; None: nobody knows."""
        return None if self.refusal else sum(one.behind for one in self.partitions)

    def lines(self, name: str) -> Iterator[str]:
        """Per partition where it ends, what was read of it, and how old that is."""
        if self.refusal:
            yield f"{name}: {self.refusal}"
        now = time.time() * 1000
        for one in self.partitions:
            age, seconds = one.age(now), one.seconds
            parts = [
                f"consumed up to {one.consumed:,}",
                f"stable end {one.stable_end:,}",
                f"high watermark {one.high_watermark:,}",
                *([f"{one.held_back:,} offsets held back by open transactions"] if one.held_back else []),
                *([f"{span(round(seconds * 1000))} behind"] if one.behind and seconds is not None else []),
                *([f"newest record read {span(round(age * 1000))} old"] if age is not None else []),
            ]
            yield f"{name}: topic '{self.topic}', partition {one.partition}: {', '.join(parts)}"


def _reads_table(node: Node) -> bool:
    return node.source is not None and isinstance(node.source.reads, Postgres)


@dataclass(frozen=True)
class _TableLag:
    """How far a source is behind its table of PostgreSQL, or why nobody knows; the server is asked once."""

    table: str
    lag: WalLag | None = None
    refusal: str = ""

    @classmethod
    def of(cls, platform: Platform, node: Node) -> _TableLag:
        from infra.epochs.refusal import EpochRefusedError
        from infra.settings import SettingsError

        assert node.source is not None
        table = node.source.postgres.table
        try:
            return cls(table, platform.table_lag(node))
        except (EpochRefusedError, SettingsError) as refusal:
            return cls(table, refusal=str(refusal))

    @property
    def behind(self) -> int | None:
        """Bytes of the log that were not read yet; None: nobody knows."""
        return self.lag.behind if self.lag is not None else None

    def lines(self, name: str) -> Iterator[str]:
        """What was read of the log, and what the slot holds back of it."""
        if self.refusal:
            yield f"{name}: {self.refusal}"
        elif self.lag is not None:
            yield f"{name}: table '{self.table}', {self.lag.shown}"


def _behind(platform: Platform, node: Node) -> str | None:
    """How far a node's table is behind its changelog; None where it is not."""
    from infra.epochs.stages.fold import lag_of

    runner = platform.runner(node.pipeline)
    found, folded = last_note(runner.paths(node).changelog), last_note(runner.paths(node).table)
    lag = lag_of(runner, node, found[1]) if found is not None and node.is_table else None
    if lag is None or folded is None or not lag.epochs:
        return None
    epochs = "1 epoch" if lag.epochs == 1 else f"{lag.epochs} epochs"
    return f"{node.name}: its table is at epoch {folded[1].epoch}, {epochs} and {lag.records:,} records behind"


def _status(
    platform: Platform, node: Node, held: Sequence[HeldState], asked: _TopicLag | _TableLag | None
) -> list[Any]:
    runner = platform.runner(node.pipeline)
    found = last_note(runner.paths(node).changelog)
    waiting = [f"epoch {s.held.epoch} {s.state}: {', '.join(s.held.invariants)}" for s in held]
    if found is None:
        return [node.name, node.kind, None, None, None, None, None, "; ".join([*waiting, "not materialised yet"])]
    note = found[1]
    measured = [m for m in runner.log.measurements(node.name) if m["epoch"] >= note.since]
    judged = last_states(platform.quality, node)
    decided = dict.fromkeys(note.decided.invariants, f" ({note.decided.summary})") if note.decided else {}
    bad = [f"{name}: {state}{decided.get(name, '')}" for name, (state, *_) in judged.items() if state != "passed"]
    checks = "; ".join(bad) if bad else f"{len(judged)} passed" if judged else "not checked"
    return [
        node.name,
        node.kind,
        note.epoch,
        sum(end + 1 for end in note.ends.values()),
        asked.behind if asked is not None else _lag(platform, node, note),
        sum(m.get("late", 0) for m in measured) if node.operation else None,
        _dead(platform, node) if node.source else sum(m.get("dead_letter", 0) for m in measured),
        "; ".join([*waiting, checks]),
    ]


def _dead(platform: Platform, node: Node) -> int:
    """Dead letters that are open."""
    return platform.source_step(node).open_letters().count


def _lag(platform: Platform, node: Node, note: CommitNote) -> int:
    """Records of the inputs, or files of a source, that were not read yet."""
    operation = node.operation
    if operation is None:
        from infra.sources.ingest import IngestStep

        step = platform.source_step(node)
        assert isinstance(step, IngestStep), "a topic's lag is in offsets"
        return len(step.unread())
    lag = 0
    for side in operation.triggers:
        part = operation.inputs[side]
        found = last_note(platform.runner(node.pipeline).paths(part).changelog)
        if found is None:
            continue
        # Of an input that was computed anew, nothing was read yet.
        known = found[1].incarnation == note.incarnations.get(side, 1)
        consumed = note.consumed.get(side, {}) if known else {}
        lag += sum(end - consumed.get(p, -1) for p, end in found[1].ends.items())
    return lag


def print_results(platform: Platform, pipeline: Pipeline) -> None:
    """The first rows of every join's result, its counts, and a line for each of its checks."""
    for node in pipeline.stored:
        if node.operation is not None:
            _print_result(platform, node)
    click.echo("")
    click.echo(status_table(platform, pipeline))


def _print_result(platform: Platform, node: Node) -> None:
    from pyspark.sql import functions as F

    paths = platform.runner(node.pipeline).paths(node)
    found = last_note(paths.changelog)
    if found is None:
        return
    version, note = found
    spark = platform.session()
    records = sum(end + 1 for end in note.ends.values())
    folded = opened(paths.table) if node.is_table else None
    if folded is not None:
        rows = read(spark, paths.table, folded.version())
        shown = rows.orderBy("_partition", "_offset")
        what = f"table, {rows.count():,} rows of {records:,} records"
    else:
        rows = read(spark, paths.changelog, version)
        shown = rows.orderBy("partition", "offset").select("key.*", "value.*")
        what = f"stream, {records:,} records"
        if "left_offset" in rows.columns:
            alone = F.count_if(F.col("left_offset").isNull() | F.col("right_offset").isNull())
            what += f", {rows.select(alone).collect()[0][0]:,} of them one-sided"
    click.echo(f"\n{node.name} ({what}; epoch {note.epoch})")
    first = shown.drop("_partition", "_offset", "_timestamp").limit(FIRST_ROWS).collect()
    header = shown.drop("_partition", "_offset", "_timestamp").columns
    cells = [["null" if cell is None else str(cell) for cell in row] for row in first]
    click.echo(table(header, [list(line) for line in cells]))
    for name, (state, checked, violations, _) in last_states(platform.quality, node).items():
        mark = {"passed": "ok  ", "violated": "BAD "}.get(state, "?   ")
        rows_checked = f"{checked:,} rows" if checked is not None else "rows"
        click.echo(f"  {mark}{name}: {violations if violations is not None else 'no'} violations in {rows_checked}")
