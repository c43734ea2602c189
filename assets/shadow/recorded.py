"""What the last audit of an application found, kept in the epoch log for those who show it.

The line of a topic is under the shadow's id, at the epoch of the node that was compared; of several audits at one epoch
the newest counts. Held by ``tests/assets/shadow/test_shadow_runs.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.assets.project import Project
from rivermeet.assets.shadow.words import describe_progress, heading, parts
from rivermeet.pipelines import Shadow

if TYPE_CHECKING:
    from rivermeet.assets.shadow.audit import Shadowed


def record(project: Project, outcome: Shadowed) -> None:
    """Keep what was found."""
    shadow = outcome.shadow
    body = {
        "at": outcome.at,
        "node": shadow.node.name,
        "topic": shadow.topic,
        "epoch": outcome.epoch,
        "profile": outcome.profile,
        "read": list(describe_progress(outcome)),
        "records": outcome.records,
        "undecodable": outcome.undecodable,
        "keys": outcome.keys,
        "equal": outcome.equal,
        "otherwise": outcome.otherwise,
        "losses": outcome.losses,
        "explained": outcome.explained,
        "path": outcome.path,
        "differences": [
            {
                "heading": heading(one),
                "explained": one.cause.explained,
                "first": [{"key": line["key"], "parts": list(parts(outcome, line))} for line in one.first],
            }
            for one in outcome.differences
        ],
    }
    log = project.context(shadow.node.pipeline).log
    log.write(shadow.id, 1, outcome.epoch, "shadowed", json.dumps(body), attempt=outcome.at)


def last_recorded(project: Project, shadow: Shadow) -> Mapping[str, Any] | None:
    """What the last audit found, as `record` keeps it; None where there was none."""
    found = project.context(shadow.node.pipeline).log.bodies(shadow.id, "shadowed")
    lines: list[Mapping[str, Any]] = [json.loads(body) for _, body in found]
    return max(lines, key=lambda line: line["at"], default=None)
