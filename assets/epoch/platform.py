"""Everything a node's step needs, wired from the settings: one place where rooms meet."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from infra.settings import Settings, SettingsError
from pipelines import Node, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from assets.quality.judging import Judgement
    from assets.quality.reached_relations import Held
    from infra.epochs.refusal import EpochRefusedError
    from infra.epochs.runner import EpochRunner
    from infra.epochs.step import EpochResult, Step


EPOCHS = "_epochs"
"""Folder of epoch logs among tables; no pipeline can be called so."""


@dataclass(frozen=True)
class Outcome:
    """One committed epoch, and what was judged of it."""

    result: EpochResult
    judgement: Judgement


@dataclass
class Platform:
    """Runs nodes under one set of settings.

    Attributes
    ----------
    say
        Called with a line of progress.
    rebuilding
        Nodes whose next epoch is a rebuild, with the grace (ms) that it is to have instead of the declared one.
    """

    settings: Settings
    say: Callable[[str], None] = lambda line: None
    rebuilding: dict[str, int | None] = field(default_factory=dict)
    _runners: dict[str, EpochRunner] = field(default_factory=dict)
    _preparing: Thread | None = None
    _folding: tuple[SparkSession, SparkSession] | None = None
    _unlisted: bool = False

    @cached_property
    def code_version(self) -> str:
        """Version of the operators, written into every plan."""
        return version("rivermeet")

    def session(self) -> SparkSession:
        """The process's session, opened on first use."""
        from infra.engine.session import session

        if not self._preparing:
            # Judging an epoch needs Great Expectations, seconds to import: they pass while the engine starts.
            os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
            self._preparing = Thread(target=import_module, args=("great_expectations",), daemon=True)
            self._preparing.start()
        return session(self.settings)

    def fold_session(self) -> SparkSession:
        """A session that only MERGEs use; renewed with the process's session."""
        from infra.engine.session import new_session

        spark = self.session()
        if self._folding is None or self._folding[0] is not spark:
            self._folding = (spark, new_session(spark))
        return self._folding[1]

    @property
    def quality(self) -> str:
        """Location of the quality table."""
        return str(self.settings.home / "quality")

    def runner(self, pipeline: Pipeline) -> EpochRunner:
        """The epoch runner of a pipeline."""
        if pipeline.name not in self._runners:
            from infra.epochs.log import EpochLog
            from infra.epochs.node_lock import lock_folder
            from infra.epochs.runner import EpochRunner

            locks = self.settings.home / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            folder = lock_folder(self.settings.tables, EPOCHS, pipeline.name, locks)
            folder.mkdir(parents=True, exist_ok=True)
            log = EpochLog(self.epochs(pipeline), str(folder / ".lock"))
            engine = self.settings.engine_home if self.settings.engine == "auto" else None
            self._runners[pipeline.name] = EpochRunner(
                self.settings.tables, log, locks, self.session, self.fold_session, engine=engine
            )
        return self._runners[pipeline.name]

    def epochs(self, pipeline: Pipeline) -> str:
        """Location of a pipeline's epoch log: in the home, or with tables that several homes may share.

        It tells which files were consumed and which plan is open. Two homes with a log each over the same tables would
        read every file twice (``tests/infra/epochs/test_two_at_once.py``).
        """
        if self.settings.tables == str(self.settings.home / "tables"):
            return str(self.settings.home / "epochs" / pipeline.name)
        return f"{self.settings.tables.rstrip('/')}/{EPOCHS}/{pipeline.name}"

    def step(self, node: Node, run: str = "", held: Held | None = None) -> Step:
        """The node's part in the commit protocol.

        Parameters
        ----------
        run
            Kept with rows that are refused.
        held
            Gets what the audit reads, for the checks.
        """
        from assets.epoch.operator_step import OperatorStep
        from assets.quality.judging import auditor
        from infra.sources.ingest import IngestStep

        judge = auditor(self, node, run, held)
        if node.operation is not None:
            return OperatorStep(node, self.settings.tables, judge, self.code_version, session=self.session)
        runner = self.runner(node.pipeline)
        return IngestStep(
            node,
            runner.paths(node).changelog,
            runner.log,
            self.settings.data,
            self.session,
            judge,
            self.code_version,
        )

    def materialise(self, node: Node, run: str) -> Outcome | None:
        """One epoch of a node, checked; None where nothing is new.

        Parameters
        ----------
        run
            Id of the run, kept with the quality results and with rows that are refused.
        """
        from assets.quality.judging import check_epoch
        from assets.quality.reached_relations import Held

        runner, kept = self.runner(node.pipeline), Held()
        step = self.step(node, run, kept)
        # Until its checks are done: to a second run the epoch would look like that of a killed one.
        with runner.lock(node).held(), closing(kept):
            if node.name in self.rebuilding:
                result = runner.rebuild(step, self.rebuilding.pop(node.name))
            else:
                result = runner.run(step)
            self._check_missed(node, result, run)
            if result is None:
                self.say(f"  {node.name:<24} nothing new")
                return None
            outcome = Outcome(result, check_epoch(self, node, result, run, kept))
        self._unlisted = True
        self.say(_line(node, outcome))
        return outcome

    def _check_missed(self, node: Node, result: EpochResult | None, run: str) -> None:
        from assets.quality.judging import check_missed
        from infra.delta.io import last_note

        if result is not None:
            before = result.plan.previous_epoch
        else:
            found = last_note(self.runner(node.pipeline).paths(node).changelog)
            before = found[1].epoch if found else 0
        missed = check_missed(self, node, before, run)
        if missed is not None:
            self._unlisted = True
            self.say(f"  {node.name:<24} epoch {before}: its run ended before its checks; {_holds(missed)}")

    def must_run(self, node: Node) -> bool:
        """Whether the node has news, or was changed by others, which its own step then refuses."""
        from infra.epochs.guard import ForeignChangeError, refuse_foreign_node

        try:
            refuse_foreign_node(self.runner(node.pipeline).paths(node), node.is_table)
            return self.has_news(node)
        except ForeignChangeError:
            return True

    def check_again(self, node: Node, run: str) -> Judgement | None:
        """The checks of a node's last epoch once more; None where it has none yet."""
        from assets.quality.judging import check_again

        self._unlisted = True
        return check_again(self, node, run)

    def judge_refused(self, node: Node, refusal: EpochRefusedError, run: str) -> Judgement | None:
        """What the audit of a refused epoch found, kept like that of a committed one."""
        from assets.quality.judging import judge_refused

        self._unlisted = True
        return judge_refused(self, node, refusal, run)

    def write_index(self) -> None:
        """List in Data Docs what was judged since the last call, if anything was."""
        if self._unlisted:
            from expectations.gx.data_docs import write_index

            self._unlisted = False
            write_index(self.settings.reports / "gx")

    def has_news(self, node: Node) -> bool:
        """Whether the node, or anything that it is made of, has something unread; asks metadata only."""
        from infra.delta.io import last_note

        operation = node.operation
        if operation is not None and any(self.has_news(part) for part in operation.inputs.values()):
            return True
        if not node.is_stored:
            return False
        found = last_note(self.runner(node.pipeline).paths(node).changelog)
        epoch, note = (found[1].epoch + 1, found[1]) if found else (1, None)
        return self.step(node).plan(note, found[0] if found else None, epoch) is not None


@dataclass
class OnEngine(Platform):
    """A platform with a home of its own on the engine of another."""

    engine: Settings | None = None

    def session(self) -> SparkSession:
        """The process's session, on that engine."""
        from infra.engine.session import session

        assert self.engine is not None
        return session(self.engine)


_current: Platform | None = None


def current() -> Platform:
    """The platform of this process; made from the environment unless `use` gave one."""
    return _current or use(Platform(Settings.from_env()))


def use(platform: Platform) -> Platform:
    """Make a platform the one of this process."""
    global _current
    _current = platform
    return platform


def _line(node: Node, outcome: Outcome) -> str:
    result = outcome.result
    parts = {"tombstones": result.tombstones, **{k.replace("_", " "): n for k, n in result.sides.items()}}
    extra = "".join(f", {n:,} {what}" for what, n in parts.items() if n)
    again = ", computed anew" if result.plan.replaces else ""
    if result.note.decided is not None:
        again += f", {result.note.decided.told}"
    seconds = sum(result.seconds.values()) + outcome.judgement.seconds
    return (
        f"  {node.name:<24} epoch {result.plan.epoch}: {result.rows:,} rows{extra}{again}; "
        f"{_holds(outcome.judgement)}; {seconds:.1f} s"
    )


def _holds(judgement: Judgement) -> str:
    return f"{sum(v.success for v in judgement.verdicts)} of {len(judgement.verdicts)} checks hold"


def data_root(settings: Settings) -> Path:
    """The data folder, where it is a folder of this machine."""
    if "://" in settings.data:
        raise SettingsError(f"RIVERMEET_DATA={settings.data} is no local folder; feeds write to one")
    return Path(settings.data)
