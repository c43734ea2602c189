"""Nodes of a run go side by side: order, failures, folds, and two sessions that compute at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Event, get_ident
from typing import Any

import pytest

from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.epoch import run as epoch_run
from rivermeet.assets.epoch import side_by_side
from rivermeet.assets.epoch.run import Outcome
from rivermeet.assets.epoch.side_by_side import InputFailedError, SideBySide
from rivermeet.assets.project import Project
from rivermeet.assets.quality.judge_committed import Judgement
from rivermeet.assets.quality.quality_table import last_states
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.kafka.refusals import BrokerUnavailableError
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Node, Pipeline
from tests.assets.home import Home, homed
from tests.builders import csv_file

PIPELINE = Pipeline("beside")


def _table(name: str) -> Any:
    files = Files(f"{name}/*.csv", "csv", {"id": "STRING", "ref": "STRING", "at": "BIGINT"})
    return PIPELINE.table(name, files, key=["id"], value=["ref"], timestamp="at", partitions=2)


LEFT, RIGHT, OTHER = _table("left"), _table("right"), _table("other")
JOINED = LEFT.join(RIGHT, "joined", select={"a": "left.ref", "b": "right.ref"})
ALONE = OTHER.filter("ref <> 'x'", "alone")
Epoch = Callable[[Project, Node, str, Any, Callable[[], None]], Outcome]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What nodes do, in order; epochs and folds that only say so."""
    found: list[str] = []

    def fold(project: Project, node: Node, run: str) -> None:
        found.append(f"fold {node.name}")

    monkeypatch.setattr(side_by_side, "materialise_fold", fold)
    monkeypatch.setattr(side_by_side, "must_fold", lambda project, node: True)
    return found


@dataclass(eq=False)
class Interruptible(Sessions):
    """Sessions without an engine, which say that they were interrupted."""

    interrupted: Event = field(default_factory=Event)

    def interrupt(self) -> None:
        self.interrupted.set()


def run(
    monkeypatch: pytest.MonkeyPatch,
    epoch: Epoch,
    interrupted: Event | None = None,
    on_epoch: Callable[[Node], None] = lambda node: None,
) -> SideBySide:
    monkeypatch.setattr(side_by_side, "materialise_epoch", epoch)
    settings = Settings.from_env({})
    sessions = Interruptible(settings, interrupted=interrupted or Event())
    return SideBySide(Project(settings, sessions), PIPELINE.stored, "run", on_epoch=on_epoch)


def test_it_says_which_nodes_have_an_epoch(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    done: Any = object()

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is OTHER:
            raise RuntimeError("no file")
        return Outcome(result=done if node in (LEFT, JOINED) else None)

    nodes = run(monkeypatch, epoch, on_epoch=lambda node: events.append(node.name))
    nodes.outcome(JOINED)
    nodes.close()
    assert [event for event in events if not event.startswith("fold")] == ["left", "joined"]


def test_inputs_first_side_by_side_and_folds_after_all_commits(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    both = Barrier(2, timeout=30)

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node in (LEFT, RIGHT):
            both.wait()  # one after the other would wait here for ever
        events.append(node.name)
        return Outcome()

    nodes = run(monkeypatch, epoch)
    for node in PIPELINE.stored:
        assert nodes.outcome(node) == Outcome(ended=nodes.outcome(node).ended)
    nodes.close()
    epochs, folds = events[:5], events[5:]
    assert epochs.index("joined") > max(epochs.index("left"), epochs.index("right"))
    assert epochs.index("alone") > epochs.index("other")
    assert sorted(folds) == [f"fold {name}" for name in ("alone", "joined", "left", "other", "right")]


def test_a_node_without_a_fold_has_its_outcome_while_others_compute(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    known = Event()

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is JOINED:
            assert known.wait(30)  # for what is known once all have ended, it would wait here for ever
        return Outcome()

    nodes = run(monkeypatch, epoch)
    monkeypatch.setattr(side_by_side, "must_fold", lambda project, node: node is JOINED)
    nodes.outcome(LEFT)
    known.set()
    nodes.outcome(JOINED)
    nodes.close()
    assert events == ["fold joined"]


def test_a_fold_that_cannot_be_planned_fails_its_node(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    def must_fold(project: Project, node: Node) -> bool:
        if node is LEFT:
            raise OSError("the disk is gone")
        return False

    done: Any = object()
    nodes = run(monkeypatch, lambda *_: Outcome(result=done), on_epoch=lambda node: events.append(node.name))
    monkeypatch.setattr(side_by_side, "must_fold", must_fold)
    with pytest.raises(OSError, match="the disk is gone"):
        nodes.outcome(LEFT)
    nodes.outcome(OTHER)
    nodes.close()
    assert "left" in events, "its epoch has verdicts, which the run's page shows"


def test_what_reads_a_node_starts_at_its_commit(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    started = Event()

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is ALONE:
            started.set()
        elif node is OTHER:
            committed()
            assert started.wait(30), "it waits for the record of what it reads"
        events.append(node.name)
        return Outcome()

    nodes = run(monkeypatch, epoch)
    for node in PIPELINE.stored:
        nodes.outcome(node)
    nodes.close()
    epochs, folds = events[:5], events[5:]
    assert sorted(epochs) == ["alone", "joined", "left", "other", "right"], "each once"
    assert len(folds) == 5, "and all before the first fold"


def test_a_failure_stops_what_reads_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is RIGHT:
            raise ValueError("no files")
        events.append(node.name)
        return Outcome()

    nodes = run(monkeypatch, epoch)
    with pytest.raises(ValueError, match="no files"):
        nodes.outcome(RIGHT)
    with pytest.raises(InputFailedError, match="'joined' did not run: its input 'right' failed"):
        nodes.outcome(JOINED)
    nodes.outcome(ALONE)
    nodes.close()
    assert sorted(event for event in events if not event.startswith("fold")) == ["alone", "left", "other"]
    assert "fold left" in events and "fold right" not in events


def test_what_is_committed_can_be_read_though_its_record_failed(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        events.append(node.name)
        if node is OTHER:
            committed()
            raise OSError("the log is full")
        return Outcome()

    nodes = run(monkeypatch, epoch)
    with pytest.raises(OSError, match="the log is full"):
        nodes.outcome(OTHER)
    nodes.outcome(ALONE)
    nodes.close()
    assert "alone" in events and "fold other" not in events


def test_what_is_committed_when_a_run_is_interrupted_is_recorded(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    started, interrupted = Event(), Event()

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is OTHER:
            started.set()
            assert interrupted.wait(30)
            committed()
        events.append(node.name)
        return Outcome()

    class Interrupted(Future[Outcome]):
        def result(self, timeout: float | None = None) -> Outcome:
            assert started.wait(30)
            raise KeyboardInterrupt

    nodes = run(monkeypatch, epoch, interrupted)
    nodes._outcomes["other"] = Interrupted()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(KeyboardInterrupt):
        nodes.outcome(OTHER)
    nodes.close()
    assert "other" in events and "alone" not in events


def test_one_that_is_asked_again_runs_once_more_and_so_does_what_waited_for_it(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    """As where a job has a retry policy: the broker is back, and Dagster asks for the step again, then for others."""

    def unreachable(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node is LEFT:
            raise BrokerUnavailableError("no answer")
        return Outcome()

    def back(project: Project, node: Node, run: str, rebuild: Any) -> Outcome:
        events.append(f"again {node.name}")
        return Outcome()

    nodes = run(monkeypatch, unreachable)
    monkeypatch.setattr(side_by_side, "materialise", back)
    with pytest.raises(BrokerUnavailableError):
        nodes.outcome(LEFT)
    with pytest.raises(InputFailedError):
        nodes.outcome(JOINED)
    for node in (LEFT, RIGHT, JOINED, ALONE):
        nodes.outcome(node)
    nodes.close()
    assert [event for event in events if event.startswith("again")] == ["again left", "again joined"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("beside"), settings) as found:
        yield found


def deliver(data: Path, number: int) -> None:
    for node in (LEFT, RIGHT, OTHER):
        csv_file(data / node.name / f"{number}.csv", "id,ref,at", f"k,{node.name}{number},{number}")


@pytest.mark.prove
def test_a_run_of_dagster_goes_so_and_each_thread_has_its_session(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real, sessions = side_by_side.materialise_epoch, {}

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        sessions[get_ident()] = project.sessions.open()
        return real(project, node, run, rebuild, committed)

    monkeypatch.setattr(side_by_side, "materialise_epoch", epoch)
    for number in (1, 2):
        deliver(home.data, number)
        assert home.run(), home.said
    used = list(sessions.values())
    assert len({id(spark) for spark in used}) == len(used) >= 2
    assert home.project.sessions.open() not in used
    for node in PIPELINE.stored:
        states = last_states(home.project.quality, node, 2)
        assert {state.state for state in states.values()} == {"passed"}, node.name
        assert {state.epoch for state in states.values()} == {2}, node.name


@pytest.mark.slow
def test_what_was_committed_below_a_step_that_failed_is_shown_by_the_next_run(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster skips what is below a failed step; that has committed nevertheless, and the next run says so."""
    judge_epoch = epoch_run.judge_epoch

    def broken(context: EpochContext, node: Node, *given: Any) -> Judgement:
        if node is OTHER:
            raise OSError("No space left on device")
        return judge_epoch(context, node, *given)

    def shown(node: Node) -> object:
        event = home.instance.get_latest_materialization_event(changelog_key(node))
        return event and event.asset_materialization and event.asset_materialization.metadata["epoch"].value

    deliver(home.data, 3)
    with monkeypatch.context() as once:
        once.setattr(epoch_run, "judge_epoch", broken)
        assert not home.run()
    found = last_note(home.project.paths(ALONE).changelog)
    assert found is not None and shown(ALONE) != found[1].epoch, home.said
    assert home.run(), home.said
    assert (shown(ALONE), shown(OTHER)) == (found[1].epoch, found[1].epoch)
    before = home.instance.get_latest_materialization_event(changelog_key(ALONE))
    assert home.run(), home.said
    assert home.instance.get_latest_materialization_event(changelog_key(ALONE)) == before, "nothing is new"


def test_an_interrupted_run_starts_no_other_node(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """Ctrl-C while the sources compute: their queries are stopped, and nothing that reads them begins."""
    stopped = Event()

    def epoch(project: Project, node: Node, run: str, rebuild: Any, committed: Callable[[], None]) -> Outcome:
        if node in (LEFT, RIGHT, OTHER):
            assert stopped.wait(30)
            raise RuntimeError("OPERATION_CANCELED")
        events.append(node.name)
        return Outcome()

    def interrupted(timeout: float | None = None) -> Outcome:
        raise KeyboardInterrupt

    nodes = run(monkeypatch, epoch, stopped)
    monkeypatch.setattr(nodes._outcomes["left"], "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nodes.outcome(LEFT)
    nodes.close()
    assert stopped.is_set() and events == []
