"""The way from a client to the warm engine: this machine only, with a token, without TLS."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicy


class LocalChannelBuilder(DefaultChannelBuilder):
    """Connects to 127.0.0.1.

    PySpark's own builder shows a token without TLS to the name ``localhost`` only. That may also
    mean ::1, where another user could listen on the same port and receive the token.

    Parameters
    ----------
    port : int
    token : str
    """

    def __init__(self, port: int, token: str) -> None:
        super().__init__(f"sc://127.0.0.1:{port}")
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
        return DefaultPolicy(max_retries=4)
