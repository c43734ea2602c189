"""Marks: how far an application has read, and only then where its output ends. They are set before our nodes read.

    1. mark       the application has read orders up to 90, and then: its output ends at 40
    2. run        our nodes read orders up to 95
    3. audit      all that the 40 rows come of has been read here

The other way round, an application that goes on would always have read something that we have not, and rows that come
of that would look like rows that nothing gives. In Dagster the audit is a step of its own. So the first step of a run
puts the marks into a file of the run, and the audit takes them from there. Of several processes of a run the first
one's marks count, for each sets its own before it reads. Held by ``tests/assets/shadow/test_shadow_runs.py``.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from rivermeet.assets.project import Project
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import Kafka, Node, Shadow, limits

if TYPE_CHECKING:
    from rivermeet.infra.shadow.application import Progress


@dataclass(frozen=True)
class Marks:
    """Where an audit ends: what the application has read (None: nobody knows), and then what it had written."""

    progress: Progress | None
    output: TopicSlice


def mark(project: Project, shadow: Shadow) -> Marks:
    """How far the application has read, and where its output ends after that.

    Raises
    ------
    TopicRefusedError
        Where the broker, the topic or the group is not there.
    """
    from rivermeet.infra.shadow.application import progress, stable_slice

    inputs = frozenset(topics_below(shadow.node))
    found = progress(project.connection, shadow.group, inputs) if shadow.group is not None else None
    return Marks(found, stable_slice(project.connection, shadow.topic))


def mark_run(project: Project, nodes: Sequence[Node], run_id: str) -> None:
    """Set the marks of all audits below these nodes, before the run reads anything; those that are set stay.

    An application or a broker that is not there keeps nothing from running: the audit says so.
    """
    pipelines = {node.pipeline.name: node.pipeline for node in nodes}
    for shadow in (one for pipeline in pipelines.values() for one in pipeline.shadows):
        file = _file(project, shadow, run_id)
        if not file.exists() and any(node in nodes for node in list_origins(shadow.node)):
            with suppress(EpochRefusedError):
                _write(file, mark(project, shadow))


def marks_of_run(project: Project, shadow: Shadow, run_id: str) -> Marks:
    """What the run has marked at its start; where it has not, as in a run of the audit alone, what there is now."""
    from rivermeet.infra.shadow.application import Progress

    file = _file(project, shadow, run_id)
    if not file.exists():
        return mark(project, shadow)
    found = json.loads(file.read_bytes())
    file.unlink()
    read = found["progress"]
    if read is not None:
        # JSON has no numbers as keys.
        whole = {t: {int(p): offset for p, offset in ends.items()} for t, ends in read["committed"].items()}
        read = Progress(read["group"], whole, read["waiting"])
    return Marks(read, TopicSlice.model_validate(found["output"]))


def topics_below(node: Node) -> Iterator[str]:
    """Names of the topics that a node is computed from."""
    if node.source is not None and isinstance(node.source.reads, Kafka):
        yield node.source.reads.topic
    for part in node.operation.inputs.values() if node.operation is not None else ():
        yield from topics_below(part)


def list_origins(node: Node) -> list[Node]:
    """The node and all stored ones that it is made of."""
    inputs = node.operation.stored_inputs.values() if node.operation is not None else ()
    return list(dict.fromkeys([*(below for part in inputs for below in list_origins(part)), node]))


def _file(project: Project, shadow: Shadow, run_id: str) -> Path:
    folder = project.settings.home / "marks" / shadow.node.pipeline.name / re.sub(r"\W", "_", shadow.id)
    return folder / f"{run_id}.json"


def _write(file: Path, marks: Marks) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    for other in file.parent.iterdir():
        if time.time() - other.stat().st_mtime > limits.MARKS_SECONDS:
            other.unlink(missing_ok=True)
    half = file.with_name(f"{uuid4().hex}.half")
    progress = None if marks.progress is None else asdict(marks.progress)
    half.write_text(json.dumps({"progress": progress, "output": marks.output.model_dump(mode="json")}))
    with suppress(FileExistsError):
        os.link(half, file)
    half.unlink()
