"""The way from a client to the warm engine: this machine only, with a token, without TLS."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicy, RetryPolicyState

from rivermeet.infra.engine.files import EngineState


class LocalChannelBuilder(DefaultChannelBuilder):
    """Connects to 127.0.0.1.

    PySpark's own builder shows a token without TLS to the name ``localhost`` only. That may also
    mean ::1, where another user could listen on the same port and receive the token.

    Parameters
    ----------
    engine : EngineState
    token : str
    """

    def __init__(self, engine: EngineState, token: str) -> None:
        super().__init__(f"sc://127.0.0.1:{engine.port}")
        self._engine = engine
        self._authorization = ("authorization", f"Bearer {token}")

    def toChannel(self) -> grpc.Channel:
        """Open a channel to this machine; it refuses any other."""
        return self._secure_channel(self.endpoint, grpc.local_channel_credentials())

    def metadata(self) -> Iterable[tuple[str, str]]:
        """What every request carries, the token among it.

        As call credentials it would take a thread for each request; in one run of
        `make prove` such a thread never started.
        """
        return [*super().metadata(), self._authorization]

    @property
    def retry_policy(self) -> RetryPolicy:
        """Seconds of patience: PySpark's ten minutes are for networks; here no answer is no engine."""
        return _WhileItRuns(self._engine)


class _WhileItRuns(DefaultPolicy):
    """Asks an engine again as long as its processes run.

    One that was killed is not asked again: every frame that was kept on it makes a request of its own when it is
    given up, and a run of ten nodes waited three minutes for some forty of them
    (``test_frames_of_a_killed_engine_are_given_up_at_once``).
    """

    def __init__(self, engine: EngineState) -> None:
        super().__init__(max_retries=4)
        self._engine = engine

    def can_retry(self, exception: BaseException) -> bool:
        return super().can_retry(exception) and self._engine.alive


class OnceInVain(DefaultPolicy):
    """Asks another's engine for as long as PySpark does, ten minutes, and nothing again after it was in vain.

    Otherwise each frame that was kept there would ask for ten minutes of its own when it is given up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gave_up = False

    def can_retry(self, exception: BaseException) -> bool:
        """Whether the request is made again."""
        return not self.gave_up and super().can_retry(exception)

    def to_state(self) -> RetryPolicyState:
        """The attempts of one request."""
        return _Attempts(self)


class _Attempts(RetryPolicyState):
    def next_attempt(self, exception: BaseException | None = None) -> int | None:
        wait = super().next_attempt(exception)
        if wait is None and isinstance(self.policy, OnceInVain):
            self.policy.gave_up = True
        return wait
