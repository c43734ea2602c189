"""Commit: one Delta commit on the changelog *is* the epoch: rows and position become visible together.

Side tables are written before it; their rows carry the epoch and count once it is committed. An epoch that a person
dropped is committed without its rows: its position advances (``assets/refused/states.py``).

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/epochs/test_kill.py``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote, Decision
from rivermeet.infra.delta.io import allow_removal, append, protect
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.side_tables import drop_other_attempt, write_side
from rivermeet.infra.delta.staged import commit_staged
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.external_modifications import ExternalModificationError
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.rows import Totals, highest
from rivermeet.infra.epochs.stages.write import Written
from rivermeet.infra.epochs.step import EpochResult, Step
from rivermeet.infra.refusal import EpochRefusedError


@dataclass(frozen=True)
class Commit:
    """The stage; ``base`` is the note that the epoch continues from."""

    step: Step
    plan: EpochPlan
    base: CommitNote | None
    name: ClassVar[str] = "commit"

    def explain(self, context: EpochContext) -> str:
        """What the stage writes, in one line."""
        version, path = self.plan.output_version, context.paths(self.step.node).changelog
        if self.plan.replaces:
            return f"replaces {path}"
        return f"{path}, {'version 0' if version is None else f'after version {version}'}"

    def run(self, context: EpochContext, written: Written, decision: Decision | None) -> EpochResult:
        """Write the side tables, then commit; ``decision`` is what a person decided about the epoch.

        Raises `EpochRefusedError` if the plan is no longer valid, `LeaseLostError` if another run has taken over, and
        `ExternalModificationError` if Delta considers the epoch already committed.
        """
        plan, node = self.plan, self.step.node
        paths = context.paths(node)
        dropped = decision is not None and decision.drops
        counts = written.counts.without_rows() if dropped else written.counts
        for name in (*written.sides, *written.without_rows):
            path, app_id = getattr(paths, name), paths.app_id(name, plan.incarnation)
            if written.counts.sides[name]:
                write_side(written.sides[name], path, app_id, plan, staged=written.staged_sides.get(name))
            else:
                drop_other_attempt(context.session, path, app_id, plan)
        if written.memory is not None:
            write_side(written.memory, paths.memory, paths.app_id("memory", plan.incarnation), plan)
        crash.crash_at("sides-written", node.name)
        if (why := self.step.explain_skip(plan)) is not None:
            raise EpochRefusedError(
                f"'{paths.pipeline}.{paths.node}', epoch {plan.epoch}: {why}; run it again", epoch=plan.epoch
            )
        note = self._note(counts, decision)
        self._commit(context, written, note, rows=not dropped)
        at = int(time.time() * 1000)
        crash.crash_at("rebuilt" if plan.replaces else "committed", node.name)
        if plan.replaces:
            # The replacement required lifting the protection; a run after a kill restores it too.
            protect(context.session, paths.changelog)
        table = open_table(paths.changelog)
        assert table is not None
        return EpochResult(
            plan=plan,
            version=table.version(),
            note=note,
            rows=counts.rows,
            tombstones=counts.tombstones,
            sides=counts.sides,
            one_sided=counts.one_sided,
            committed_at=at,
            newest_event=max((counts.stream_time or counts.times).values(), default=None),
            staged=written.named_files is not None,
        )

    def _note(self, counts: Totals, decision: Decision | None) -> CommitNote:
        plan, base = self.plan, self.base
        return CommitNote(
            incarnation=plan.incarnation,
            epoch=plan.epoch,
            ends={**plan.ends, **counts.ends},
            times=highest(chain(base.times.items() if base else (), counts.times.items())),
            stream_time=highest(chain(plan.stream_time.items(), counts.stream_time.items())),
            consumed={side: part.upto for side, part in plan.inputs.items()},
            incarnations={side: part.incarnation for side, part in plan.inputs.items()},
            since=plan.since,
            declared=plan.declared,
            grace=plan.grace,
            skipped=plan.skipped,
            decided=decision,
        )

    def _commit(self, context: EpochContext, written: Written, note: CommitNote, rows: bool) -> None:
        plan, paths = self.plan, context.paths(self.step.node)
        app_id, token = paths.app_id("changelog", plan.incarnation), context.lock(self.step.node).confirm()
        if written.named_files is not None:
            if plan.replaces and (table := open_table(paths.changelog)) is not None:
                allow_removal(context.session(), paths.changelog, table)
            mode = "overwrite" if plan.replaces else "append"
            commit_staged(written.named_files, app_id, plan.epoch, note, rows, mode=mode, token=token)
        else:
            frame = written.rows if rows else written.rows.where("false")
            append(frame, paths.changelog, app_id, plan.epoch, note=note, replace=plan.replaces)
        found = context.read_note(self.step.node)
        if found is None or found.epoch < plan.epoch:
            raise ExternalModificationError(
                f"changelog of '{paths.pipeline}.{paths.node}': Delta skipped epoch {plan.epoch}, which it takes for "
                f"committed: the table was put back to an earlier version meanwhile; run `{paths.rebuild}` "
                f"(table: {paths.changelog})",
                epoch=plan.epoch,
            )
