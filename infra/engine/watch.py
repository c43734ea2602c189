"""A process's eye on the warm engine: it never waits in silence for one that is gone, does not answer, or is full.

| the engine | the process |
|---|---|
| has ended | gives up its sessions at once: nothing of them, no frame either, is asked for again |
| does not answer for 30 s | says so, once |
| does not answer for 5 min | gives up its sessions; what it was waiting for fails with the reason |
| answers, however long a query takes | waits |
| collects more than it works | says so, once |

To answer is to take a new connection, which needs no more of the engine than that its threads run. Calls of Spark
Connect have no deadline, and need none: a query may take days. Held by ``tests/infra/engine/test_watch.py``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from threading import Event, Thread

from rivermeet.infra.engine.channel import LocalChannelBuilder
from rivermeet.infra.engine.files import EngineFiles, EngineState
from rivermeet.infra.engine.process import EngineError
from rivermeet.infra.engine.processes import END_SECONDS

LOOK_SECONDS = 5.0
SAY_AFTER, GIVE_UP_AFTER = 30.0, 300.0
"""Seconds without an answer."""
_LAST_ANSWERS = 20
"""Answers within two seconds or more: an engine that has given them is not ending."""

_log = logging.getLogger(__name__)
# Without a handler Python would print what is said here to the terminal a second time.
logging.getLogger("rivermeet.infra").addHandler(logging.NullHandler())


class EngineLostError(EngineError):
    """The warm engine has ended, or does not answer."""

    is_transient = True
    remedy = (
        "Run again: what was not committed is done again. `rivermeet engine stop` ends an engine that does not answer."
    )


class Watch:
    """Looks at the engine in the background, until `end`.

    Parameters
    ----------
    give_up
        Closes the process's sessions, so that what waits for them fails.
    """

    def __init__(self, files: EngineFiles, state: EngineState, token: str, give_up: Callable[[], None]) -> None:
        self._files = files
        self._state = state
        self._token = token
        self._give_up = give_up
        self._ended = Event()
        self._silent = 0.0
        self._lost: str | None = None
        Thread(target=self._look, daemon=True, name="engine watch").start()

    @property
    def loss(self) -> str | None:
        """Why the engine is of no use to this process any more; None where it is."""
        # Its record goes first: a JVM that has a recording to write takes up to a minute to end.
        if self._lost is None and self._files.read() != self._state:
            self._lost = (
                f"the engine (pid {self._state.pid}) has ended: it was stopped, killed, or ran out of memory "
                f"(log: {self._files.log}). What was not committed, the next run does again: run again"
            )
        return self._lost

    def await_loss(self) -> str | None:
        """`loss`, after a request was broken off: an engine that is stopped does this half a second before it ends.

        On a busy machine it is longer, and meanwhile it takes new connections.
        """
        answered = silent = 0
        while answered < _LAST_ANSWERS and silent < END_SECONDS:
            if self.loss is not None or self._ended.wait(0.1):
                break
            if answers(self._state, self._token, 1):
                answered += 1
            else:
                silent += 1
        return self.loss

    @property
    def answers(self) -> bool:
        """Whether the engine has answered when it was asked last."""
        return not self._silent and self.loss is None

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _look(self) -> None:
        said_silent = said_full = False
        while not self._ended.wait(LOOK_SECONDS if not self._silent else 0):
            if self.loss is None and not answers(self._state, self._token, LOOK_SECONDS):
                # Counted in questions: of the time that the machine was asleep nobody knows anything.
                self._silent += LOOK_SECONDS
            elif self.loss is None:
                self._silent, said_silent = 0.0, False
            if self.loss is None and self._silent >= GIVE_UP_AFTER:
                self._lost = (
                    f"the engine (pid {self._state.pid}) has not answered for {self._silent:.0f} s "
                    f"(log: {self._files.log}): end it with `rivermeet engine stop` and run again. "
                    "What was not committed, the next run does again"
                )
            if self.loss is not None:
                self._give_up()
                return
            if self._silent >= SAY_AFTER and not said_silent:
                said_silent = True
                _say(
                    f"the engine (pid {self._state.pid}) has not answered for {self._silent:.0f} s; "
                    "`rivermeet engine status` shows it, `rivermeet engine stop` ends it"
                )
            heap = self._files.heap()
            if heap is not None and heap.is_full and not said_full:
                said_full = True
                _say(f"the engine (pid {self._state.pid}) {heap.sentence}")


def answers(state: EngineState, token: str, seconds: float) -> bool:
    """Whether the engine takes a connection within so many seconds."""
    import grpc

    builder = LocalChannelBuilder(state, token)
    # One of its own: a connection that stands says nothing about the engine of now.
    builder.setChannelOption("grpc.use_local_subchannel_pool", 1)
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(seconds)
    except grpc.FutureTimeoutError:
        return False
    finally:
        # gRPC looks at a connection every 0.2 s, and closing waits for that.
        Thread(target=channel.close, daemon=True).start()
    return True


def _say(line: str) -> None:
    print(f"rivermeet: {line}", file=sys.stderr)
    # Dagster keeps what this logger says with the run.
    _log.warning(line)
