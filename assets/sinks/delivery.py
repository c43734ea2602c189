"""What a run delivers to a topic, and whether the topic is behind its changelog.

    changelog at epoch 4, delivered up to epoch 2: behind      a run sends epochs 3 and 4, reads them back, and notes 4
    changelog at epoch 4, delivered up to epoch 4              nothing to do, and no broker is asked

The note is in the epoch log, for those who ask how far a topic is; where to go on is in the topic alone. Held by
``tests/assets/sinks/test_sink_runs.py``.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from rivermeet.assets.project import Project
from rivermeet.infra.delta.changelog_files import count_between
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.node_lock import NodeLock, lock_folder
from rivermeet.infra.sinks.kafka.deliver import Delivered, deliver, read_back
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink


@dataclass(frozen=True)
class DeliveryOutcome:
    """What a delivery came to: rows that the changelog has up to its position, and rows that were read back."""

    delivered: Delivered
    expected: int
    read_back: int
    seconds: float

    @property
    def is_complete(self) -> bool:
        """Whether the broker acknowledged each row of the changelog, and once."""
        return self.delivered.position.records == self.expected

    @property
    def is_read_back(self) -> bool:
        """Whether the rows of this delivery lie in the topic, each once."""
        return self.read_back == self.delivered.rows


def deliver_rows(project: Project, sink: TopicSink) -> DeliveryOutcome | None:
    """Deliver what a topic does not have yet, and read it back; None where its node has no epoch."""
    context, node = project.context(sink.node.pipeline), sink.node
    lock = NodeLock(lock_folder(context.tables, node.pipeline.name, f"{node.name}/topics/{sink.topic}", context.locks))
    start = time.monotonic()
    # A second run of this machine waits; one of another is fenced by the broker.
    with lock.hold():
        changelog = context.paths(node).changelog
        known = _find_delivered(context, sink)
        found = deliver(
            sink, changelog, project.connection, project.sessions.open, registry=project.registry, known=known
        )
        if found is None:
            return None
        again = read_back(project.connection, sink, found.written)
        position = found.position
        kept = {"incarnation": position.incarnation, "rows": found.rows, "ends": position.ends}
        line = json.dumps(kept | {"records": position.records})
        context.log.write(sink.id, position.incarnation, position.epoch, "delivered", line)
    outcome = DeliveryOutcome(found, count_between({}, position.ends), again, time.monotonic() - start)
    rows, epochs = found.rows, position.epoch - found.before.epoch
    about = rows_of_epochs(rows, epochs) if rows else "nothing new"
    project.say(f"  {node.name:<24} topic {sink.topic} at epoch {position.epoch}: {about}; {outcome.seconds:.1f} s")
    return outcome


def _find_delivered(context: EpochContext, sink: TopicSink) -> int:
    """The last epoch that was delivered of the changelog's incarnation; 0 where none was."""
    found = last_note(context.paths(sink.node).changelog)
    lines = {epoch: json.loads(line) for epoch, line in context.log.lines(sink.id, "delivered").items()}
    now = found[1].incarnation if found is not None else 0
    return max((epoch for epoch, line in lines.items() if line["incarnation"] == now and line["records"]), default=0)


def rows_of_epochs(rows: int, epochs: int) -> str:
    """So many rows of so many epochs, in words."""
    return f"{pluralize(rows, 'row')} of {pluralize(epochs, 'epoch')}"


@dataclass(frozen=True)
class SinkLag:
    """How far a topic is behind its changelog: the epoch that it was delivered up to, epochs and rows after it."""

    epoch: int
    epochs: int
    rows: int

    @property
    def due(self) -> str:
        """What is to be delivered, in words."""
        return rows_of_epochs(self.rows, self.epochs)


def sink_lag(project: Project, sink: TopicSink) -> SinkLag:
    """How far a topic is behind; read from metadata of this home alone."""
    context = project.context(sink.node.pipeline)
    found = last_note(context.paths(sink.node).changelog)
    if found is None:
        return SinkLag(0, 0, 0)
    note, lines = found[1], context.log.lines(sink.id, "delivered")
    epoch = max(lines, default=0)
    line = json.loads(lines[epoch]) if lines else {}
    # Of a node that was rebuilt the topic has none of the rows: its step refuses, and says so.
    ends = line.get("ends", {}) if line.get("incarnation") == note.incarnation else {}
    rows = max(count_between({int(p): end for p, end in ends.items()}, note.ends), 0)
    # An epoch without rows is no transaction, and leaves nothing to deliver.
    return SinkLag(epoch, max(note.epoch - epoch, 0) if rows else 0, rows)
