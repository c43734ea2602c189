"""A standby in the place of the server, and the same one once it has taken over: refused with the way on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest

from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.refusals import OtherServerError, ServerUnfitError
from rivermeet.pipelines import Pipeline
from tests.infra.sources.postgres.base import Base
from tests.reliability import survived
from tests.servers.postgres import PostgresServer, running

pytestmark = pytest.mark.slow


@contextmanager
def standby(of: PostgresServer) -> Iterator[PostgresServer]:
    """A server that follows another one."""
    folder = Path(mkdtemp(prefix="rivermeet-postgres-"))
    shutil.chown(folder, of.folder.owner(), of.folder.group())
    made = PostgresServer(folder, of.options)
    try:
        made._run("pg_basebackup", "-d", of.dsn, "-R", "-X", "stream", "-c", "fast")
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.prove
def test_a_standby_and_its_promotion(base: Base) -> None:
    """It has the rows, and decodes no changes; promoted, it is a server whose log nobody has read."""
    with running() as primary:
        own = Base(base.world, primary)
        own.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)")
        node = Pipeline("shop").table("t", own.table("t", {"id": "INT", "n": "INT"}))
        own.run(node)
        own.do("UPDATE t SET n = 2")
        with standby(primary) as other:
            moved = replace(own.step(node).slot, database=Database(other.dsn, own.name))
            for slot in (moved, replace(moved, pipeline="another")):
                with pytest.raises(ServerUnfitError, match="names a standby, which decodes no changes; name the prim"):
                    own.run(node, slot=slot)
            step = replace(own.step(node), slot=moved)
            with step.database.open_connection() as connection:
                (problem,) = step.problems(connection, step.position(step.note()))
            assert "source 'shop.t': RIVERMEET_POSTGRES names a standby" in str(problem)
            own.run(node)
            own.same(node, "SELECT id, n FROM t")
            survived("a standby named in place of its primary", "refused; with the primary named, the next run goes on")

            other._run("pg_ctl", "-w", "promote")
            with psycopg.connect(f"{other.dsn} dbname={own.name}", autocommit=True) as client:
                client.execute("INSERT INTO t VALUES (3, 3)")
            for _ in range(2):
                with pytest.raises(OtherServerError, match=r"a standby that took over.*`rivermeet resnapshot shop t`"):
                    own.run(node, slot=moved)
            own.client.close()
            del own.client
            own.server = other
            own.resnapshot(node)
            own.same(node, "SELECT id, n FROM t")
            own.do("DELETE FROM t WHERE id = 1")
            own.run(node)
            own.same(node, "SELECT id, n FROM t")
            own.client.close()
    survived("a standby that took over", "refused; `resnapshot` reads the whole table into a new incarnation")
