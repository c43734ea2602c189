"""Freshness of what a source reads, as a check: a source may be run every minute, and yet stand still.

The node's freshness policy counts epochs; this counts what is there and was not read, as the kind of source judges it
(``infra/sources/kafka/topic_slice.py``, ``infra/sources/standing.py``). One that cannot be asked fails, as a warning.
Held by ``tests/assets/defs/test_source_checks.py``.
"""

import time
from collections.abc import Iterator

import dagster as dg

from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.project import Project
from rivermeet.infra.source_kinds import kind_of
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.errors import RivermeetError


def source_checks(pipeline: Pipeline) -> Iterator[dg.AssetChecksDefinition]:
    """The checks of a pipeline's sources, of kinds that have one."""
    for node in pipeline.stored:
        kind = kind_of(node)
        if kind is not None and kind.freshness is not None:
            yield source_check(node, kind.freshness.name, kind.freshness.sentence)


def source_check(node: Node, name: str, sentence: str) -> dg.AssetChecksDefinition:
    """The check of one source."""

    @dg.asset_check(
        asset=changelog_key(node),
        name=name,
        description=sentence.format(seconds=node.pipeline.freshness // 1000),
    )
    def is_fresh(rivermeet: ProjectResource) -> dg.AssetCheckResult:
        return judge_source(rivermeet.project, node)

    return is_fresh


def judge_source(project: Project, node: Node) -> dg.AssetCheckResult:
    """Ask the source, where it reads, how far it is behind."""
    try:
        found = project.source_step(node).fresh(node.pipeline.freshness, time.time() * 1000)
    except RivermeetError as why:
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(why))
    return dg.AssetCheckResult(
        passed=found.passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=found.description,
        metadata=found.metadata,
    )
