"""Files as a kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.infra.sources.files.file_list import FileList
from rivermeet.infra.sources.kind import SourceContext, SourceKind
from rivermeet.pipelines import Files, Node

if TYPE_CHECKING:
    from rivermeet.infra.sources.files.ingest import IngestStep


def step(context: SourceContext, node: Node) -> IngestStep:
    """A node's part in an epoch."""
    from rivermeet.infra.sources.files.ingest import IngestStep

    return IngestStep(
        node,
        context.epochs.paths(node),
        context.epochs.log,
        context.settings.data,
        context.sessions.open,
        context.landing(node) if context.sessions.settings.lands_files else None,
    )


KIND = SourceKind("files", Files, FileList, step)
