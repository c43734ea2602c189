"""The nodes of a run, side by side where they do not read each other: one is planned while another computes.

    orders ─┐                     two at a time: orders and people, then named;
    people ─┴─ named              once all epochs are committed, the folds that are due: of named

A node starts when all that it reads in this run has committed its epoch, or had nothing new: the commit is the epoch,
and no reader waits for its record and its verdicts. One that fails before keeps what reads it from starting, and
nothing else. What folds does so after all commits: no epoch waits for a fold. A node without a fold has its outcome
at once, so that its events are written while others compute. On an engine of its own process (``local[…]``,
``spark://…``) nodes run one after the other, as they are asked for.

Held by ``tests/assets/test_side_by_side.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from graphlib import TopologicalSorter
from threading import Lock

from rivermeet.assets.epoch.materialise import materialise, materialise_epoch, materialise_fold, must_fold
from rivermeet.assets.epoch.run import Outcome
from rivermeet.assets.project import Project
from rivermeet.infra.engine.session import explain_loss
from rivermeet.infra.engine.watch import EngineLostError
from rivermeet.infra.epochs.stages.plan import Rebuild
from rivermeet.pipelines import Node, limits
from rivermeet.pipelines.errors import RivermeetError


class InputFailedError(RivermeetError):
    """A node did not run, as one that it reads has failed."""

    remedy = "See why the input failed, and run again."


class SideBySide:
    """All nodes that one run materialises.

    Parameters
    ----------
    rebuild
        Those that are recomputed from offset 0, by name.
    on_epoch
        Called when a node has committed an epoch and has its verdicts; by one thread at a time.
    """

    def __init__(
        self,
        project: Project,
        nodes: Sequence[Node],
        run_id: str,
        rebuild: Mapping[str, Rebuild] | None = None,
        on_epoch: Callable[[Node], None] = lambda node: None,
    ) -> None:
        self._project, self._run, self._rebuild, self._on_epoch = project, run_id, rebuild or {}, on_epoch
        self._nodes = {node.name: node for node in nodes}
        reads = {node.name: node.operation.stored_inputs.values() if node.operation else () for node in nodes}
        self._reads = {name: [part.name for part in parts if part.name in self._nodes] for name, parts in reads.items()}
        self._outcomes: dict[str, Future[Outcome]] = {name: Future() for name in self._nodes}
        self._committed: dict[str, Outcome] = {}
        self._failed: set[str] = set()
        self._raised: set[str] = set()
        self._retried: set[str] = set()
        self._interrupted = False
        self._pool: ThreadPoolExecutor | None = None
        self._order = TopologicalSorter(self._reads)
        self._released: set[str] = set()
        self._unfinished = len(self._nodes)
        self._lock = Lock()

    def outcome(self, node: Node) -> Outcome:
        """What the run of a node came to; starts them all when it is first asked.

        Asked again for one that has failed, as Dagster's retries do, it runs that once more, and then what reads it.

        Raises
        ------
        Exception
            The node's own, or `InputFailedError`.
        """
        is_again = node.name in self._raised or not self._retried.isdisjoint(self._reads[node.name])
        if not self._project.sessions.are_concurrent or (
            is_again and self._outcomes[node.name].exception() is not None
        ):
            outcome = materialise(self._project, node, self._run, self._rebuild.get(node.name))
            self._retried.add(node.name)
            return outcome
        try:
            return self._result(node)
        except Exception:
            self._raised.add(node.name)
            raise

    def _result(self, node: Node) -> Outcome:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(limits.NODES_AT_ONCE, "node", self._project.sessions.use_own)
            self._order.prepare()
            self._start()
        future = self._outcomes[node.name]
        try:
            return future.result()
        except BaseException:
            # Ctrl-C and the like come while the node is still on its way.
            with self._lock:
                self._interrupted |= not future.done()
            raise

    def did_something(self, node: Node) -> bool:
        """Whether the node has something that its own step must report: an epoch, verdicts, a fold, a failure."""
        try:
            outcome = self._result(node)
        except Exception:
            return True
        return any(part is not None for part in (outcome.result, outcome.missed, outcome.folded))

    def close(self) -> None:
        """Wait for what still runs; where the run was interrupted, start no other node and stop the queries."""
        if self._pool is None:
            return
        if self._interrupted:
            self._project.sessions.interrupt()
        else:
            wait(self._outcomes.values())
        self._pool.shutdown(wait=True, cancel_futures=self._interrupted)

    def _start(self) -> None:
        """Submit all nodes whose inputs are committed; the folds, when all nodes have ended; nothing after Ctrl-C."""
        assert self._pool is not None
        with self._lock:
            if self._interrupted:
                return
            for name in self._order.get_ready():
                self._pool.submit(self._epoch, self._nodes[name])
            if not self._unfinished:
                folds, self._committed = self._committed, {}
                for name, outcome in folds.items():
                    self._pool.submit(self._fold, self._nodes[name], outcome)

    def _epoch(self, node: Node) -> None:
        future, outcome, folds = self._outcomes[node.name], None, False
        try:
            if failed := self._failed.intersection(self._reads[node.name]):
                raise InputFailedError(f"'{node.name}' did not run: its input '{min(failed)}' failed")
            outcome = materialise_epoch(
                self._project, node, self._run, self._rebuild.get(node.name), lambda: self._release(node)
            )
            folds = must_fold(self._project, node)
        except BaseException as error:
            if node.name not in self._released:  # what is committed can be read
                self._failed.add(node.name)
            future.set_exception(_explain(error))
        with self._lock:
            self._unfinished -= 1
            if outcome is not None:
                if folds:
                    self._committed[node.name] = outcome
                if outcome.result is not None:
                    self._on_epoch(node)
        self._release(node)
        if outcome is not None and not folds and not future.done():
            future.set_result(outcome)

    def _release(self, node: Node) -> None:
        """Start what waits for the node, if that was not done."""
        with self._lock:
            if node.name not in self._released:
                self._released.add(node.name)
                self._order.done(node.name)
        self._start()

    def _fold(self, node: Node, outcome: Outcome) -> None:
        future = self._outcomes[node.name]
        try:
            future.set_result(replace(outcome, folded=materialise_fold(self._project, node, self._run)))
        except BaseException as error:
            future.set_exception(_explain(error))


def _explain(error: BaseException) -> BaseException:
    """The error, or why the engine is gone, where that is what it comes from."""
    lost = explain_loss(error)
    if lost is None:
        return error
    explained = EngineLostError(lost)
    explained.__cause__ = error
    return explained
