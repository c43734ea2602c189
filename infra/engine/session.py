"""Spark sessions: one per process, on the engine that the settings choose."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, cast

from rivermeet.infra.engine import conf as spark_conf
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.jars import jars
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.engine.process import FOREIGN, EngineError
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    from rivermeet.infra.engine.watch import Watch


@dataclass
class _Open:
    settings: Settings
    spark: SparkSession
    channel: DefaultChannelBuilder | None = None
    attachment: engine.Attachment | None = None
    watch: Watch | None = None
    others: list[SparkSession] = field(default_factory=list)

    def give_up(self) -> None:
        """Close the way to the engine for all sessions: what waits for an answer fails, and nothing is asked again."""
        for spark in (self.spark, *self.others):
            # Closing waits for what is on its way, for seconds.
            Thread(target=spark.client.close, daemon=True).start()  # pyright: ignore[reportAttributeAccessIssue]


_open: _Open | None = None
_lost: str | None = None
"""Why the engine before was given up: what was asked of it may fail after another has taken its place."""
_ENDING = ("closed channel", "SparkContext was shut down", "stopped SparkContext")
_NO_ANSWER = {"SparkConnectException", "SparkConnectGrpcException", "_InactiveRpcError", "_MultiThreadedRendezvous"}


def session(settings: Settings) -> SparkSession:
    """Return this process's session, opening it on first use.

    A session whose engine has gone is replaced; frames of the old one are then of no use.

    Parameters
    ----------
    settings : Settings
        `settings.engine` chooses a Spark Connect session (``auto``, ``sc://…``) or one with a
        driver in this process (``local[…]``, ``spark://…``).

    Returns
    -------
    SparkSession
    """
    global _open
    if _open is not None and (_open.settings != settings or (_open.watch is not None and _open.watch.loss)):
        release()
    if _open is None:
        remote = settings.engine == "auto" or settings.engine.startswith("sc://")
        _open = _connect(settings) if remote else _classic(settings)
        atexit.register(release)
    return _open.spark


def new_session(spark: SparkSession) -> SparkSession:
    """Return a session on the same engine whose settings are its own.

    A MERGE is stamped by session settings, and in a shared session they would stamp every later
    write as well. Frames cannot be carried over: read them again in the new session.

    Parameters
    ----------
    spark : SparkSession
        What `session`, or this function, returned.

    Returns
    -------
    SparkSession
        Closed by `release`; `stop` on it would stop a local engine.
    """
    if _open is None or not any(known is spark for known in (_open.spark, *_open.others)):
        raise RuntimeError("new_session needs a session that infra.engine.session.session, or it, gave")
    other = spark.newSession() if _open.channel is None else _remote(_open.channel)
    if _open.attachment is not None:
        _open.attachment.note(other)
    _open.others.append(other)
    return other


def close(spark: SparkSession) -> None:
    """Give up a session that `new_session` gave, and what the engine keeps for it."""
    if _open is not None and any(known is spark for known in _open.others):
        _open.others = [known for known in _open.others if known is not spark]
        if _open.channel is not None:
            spark.stop()


def release() -> None:
    """Close this process's sessions; the warm engine stays."""
    global _open, _lost
    if _open is None:
        return
    was, _open = _open, None
    _lost = was.watch.loss if was.watch is not None else None
    atexit.unregister(release)
    if was.watch is not None and not was.watch.answers:
        was.give_up()
    elif was.channel is not None:
        for spark in (*was.others, was.spark):
            spark.stop()
    else:
        was.spark.stop()
    if was.watch is not None:
        was.watch.end()
    if was.attachment is not None:
        was.attachment.close()
    if was.channel is not None:
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def explain_loss(error: BaseException) -> str | None:
    """Why the warm engine that an error comes from is of no use any more; None where it comes from elsewhere."""
    # What a query is refused for has a class of its own, and so has what an engine that is ending cancels.
    if type(error).__name__ not in _NO_ANSWER and not any(end in str(error) for end in _ENDING):
        return None
    return (_open.watch.await_loss() if _open is not None and _open.watch is not None else None) or _lost


def _connect(settings: Settings) -> _Open:
    from pyspark.sql.connect.client import DefaultChannelBuilder

    from rivermeet.infra.engine.channel import LocalChannelBuilder
    from rivermeet.infra.engine.watch import GIVE_UP_AFTER, EngineLostError, Watch, answers

    # `pyspark.sql.functions` looks here to know which kind of column to make.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    if settings.engine != "auto":
        channel = DefaultChannelBuilder(settings.engine)
        return _Open(settings, _remote(channel), channel)
    attachment = engine.attach(settings)
    channel = LocalChannelBuilder(attachment.state, attachment.token)
    try:
        if not answers(attachment.state, attachment.token, GIVE_UP_AFTER):
            raise EngineLostError(
                f"the engine (pid {attachment.state.pid}) does not answer (log: {attachment.files.log}): end it with "
                "`rivermeet engine stop` and run again"
            )
        opened = _Open(settings, _remote(channel), channel, attachment)
        attachment.note(opened.spark)
        opened.watch = Watch(attachment.files, attachment.state, attachment.token, opened.give_up)
        return opened
    except BaseException:
        attachment.close()
        raise


def _remote(channel: DefaultChannelBuilder) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from rivermeet.infra.engine.channel import LocalChannelBuilder, OnceInVain

    builder = ConnectSession.builder.channelBuilder(channel)
    for name, value in (spark_conf.SESSION | spark_conf.share_of_cores()).items():
        builder = builder.config(name, value)
    made = builder.create()
    local = isinstance(channel, LocalChannelBuilder)
    made.client.set_retry_policies([channel.retry_policy if local else OnceInVain()])
    return cast("SparkSession", made)


def _classic(settings: Settings) -> _Open:
    from pyspark.sql import SparkSession

    find_java()
    if settings.engine.startswith("spark://"):
        refuse_no_master(settings.engine)
    for name in FOREIGN:
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = spark_conf.classic(settings, settings.engine, jars(settings))
    builder = SparkSession.builder.master(settings.engine).appName("rivermeet")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return _Open(settings, builder.config("spark.log.level", "ERROR").getOrCreate())


def refuse_no_master(engine: str) -> None:
    """Refuse ``spark://HOST:PORT[,…]`` where nothing listens: Spark asks for a minute, and ends with a page of Java.

    Raises
    ------
    EngineError
        Where there is no master at any of these addresses.
    """
    for address in engine.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), limits.CONNECT_SECONDS).close()
            return
    raise EngineError(
        f"RIVERMEET_ENGINE={engine}: no Spark master answers there; start it, or correct the address",
        variable="RIVERMEET_ENGINE",
    )
