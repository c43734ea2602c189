"""The audit of an application as an asset below its node's changelog, with checks that block nobody.

| check | holds where |
|---|---|
| ``nothing_lost`` | no row of the application's output is missing, extra or stale, but for what interleaving explains |
| ``output_is_readable`` | each record of its output can be decoded |

An application, or its topic, that is not there makes both checks warn, and fails no run. The step runs with each new
epoch of the node, and whenever it is asked for alone. Held by ``tests/assets/shadow/test_shadow_runs.py``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.keys import key_of, step_below
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.shadow.marks import marks_of_run
from rivermeet.assets.shadow.words import lines, record
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import Shadow
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from rivermeet.assets.shadow.audit import Shadowed

LOST, READABLE = "nothing_lost", "output_is_readable"


def shadow_key(shadow: Shadow) -> dg.AssetKey:
    """The audit as an asset."""
    return key_of(shadow.node.pipeline, f"{shadow.topic}_shadow")


def shadow_asset(shadow: Shadow) -> dg.AssetsDefinition:
    """The asset of one audit."""
    node, key = shadow.node, shadow_key(shadow)

    checks = {
        LOST: "The application's output lacks nothing, and has no more.",
        READABLE: "Each record of the output can be decoded.",
    }

    @step_below(node, key, f"What an application wrote to topic `{shadow.topic}`, against `{node.name}`.", checks)
    def audit_application(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
        from rivermeet.assets.shadow.audit import audit

        project = rivermeet.project
        try:
            outcome = audit(project, shadow, marks_of_run(project, shadow, context.run.run_id))
        except EpochRefusedError as refusal:
            # Whatever an application does, our run goes on.
            yield dg.MaterializeResult(key, metadata={"not_compared": str(refusal)})
            yield from (_check(shadow, name, False, f"could not be compared: {refusal}") for name in (LOST, READABLE))
            return
        record(project, outcome)
        said = f"{outcome.losses:,} lost or wrong, {outcome.explained:,} explained"
        project.say(f"  {node.name:<24} against topic {shadow.topic}: {said}; {outcome.seconds:.1f} s")
        yield dg.MaterializeResult(key, metadata=_metadata(outcome))
        yield from _checks(shadow, outcome)

    return audit_application


def _metadata(outcome: "Shadowed") -> dict[str, Any]:
    return {
        "epoch": outcome.epoch,
        "compared": outcome.keys,
        "equal": outcome.equal,
        "came_otherwise": outcome.otherwise,
        "lost_or_wrong": outcome.losses,
        "explained": outcome.explained,
        "seconds": round(outcome.seconds, 3),
        "said": dg.MetadataValue.md("```text\n" + "\n".join(lines(outcome)) + "\n```"),
    }


def _checks(shadow: Shadow, outcome: "Shadowed") -> Iterator[dg.AssetCheckResult]:
    ahead = f" The application has read {pluralize(outcome.ahead, 'offset')} that we have not." if outcome.ahead else ""
    causes = ", ".join(f"{one.cause.id} {one.count:,}" for one in outcome.differences if not one.cause.explained)
    lost = f"{outcome.losses:,} of {outcome.keys:,} are lost or wrong{': ' if causes else ''}{causes}; "
    yield _check(shadow, LOST, not outcome.losses, f"{lost}{outcome.explained:,} are explained.{ahead}")
    bad = f"{outcome.undecodable:,} of {pluralize(outcome.records, 'record')} cannot be read as rows of the node."
    bad = f"{bad} {'; '.join(outcome.why)}"
    yield _check(shadow, READABLE, not outcome.undecodable, bad.strip())


def _check(shadow: Shadow, name: str, passed: bool, said: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=shadow_key(shadow),
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
    )
