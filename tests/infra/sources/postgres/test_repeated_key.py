"""A key that two rows have: refused with the key, in the snapshot and in changes, and nothing is lost."""

from __future__ import annotations

import pytest

from rivermeet.infra.postgres.refusals import KeyRepeatedError
from rivermeet.pipelines import Pipeline
from tests.infra.sources.postgres.base import Base
from tests.reliability import handled

pytestmark = pytest.mark.slow
MADE = ("CREATE TABLE t (id int, n int)", "ALTER TABLE t REPLICA IDENTITY FULL")
SCHEMA = {"id": "INT", "n": "INT"}


def test_a_key_that_is_there_twice_at_first(base: Base) -> None:
    """With a key that keeps the rows apart, they are read; a null key is a dead letter as before."""
    base.do(*MADE, "ALTER TABLE t ADD m int DEFAULT 9")
    base.do("INSERT INTO t VALUES (1, 1), (2, 2), (2, 3), (NULL, 4), (NULL, 5)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA), max_bad_share=0.9)
    with pytest.raises(KeyRepeatedError, match=r'key= \(id\) does not keep .* apart: two have \{"id":2\}'):
        base.run(node)
    whole = Pipeline("shop").table("t", base.table("t", {**SCHEMA, "m": "INT"}, ("id", "n")), max_bad_share=0.9)
    base.run(whole)
    assert base.folded(whole) == [(1, 1, 9), (2, 2, 9), (2, 3, 9)]
    assert len(base.letters(whole)) == 2
    handled("PostgreSQL", "a key= that two rows of the table have", "refused, with the key")


def test_a_key_that_comes_twice(base: Base) -> None:
    """What leaves a key and comes again is no repeat, nor is a row after a truncate."""
    base.do(*MADE, "INSERT INTO t VALUES (1, 1), (2, 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 5)", "UPDATE t SET id = 3 WHERE id = 2")
    base.do("INSERT INTO t VALUES (2, 6)", "UPDATE t SET n = n + 1")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("TRUNCATE t", "INSERT INTO t VALUES (1, 7), (4, 4)")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("INSERT INTO t VALUES (4, 5)")
    with pytest.raises(KeyRepeatedError, match=r'two have \{"id":4\} at a time.*resnapshot shop t'):
        base.run(node)
    base.do("DELETE FROM t WHERE n = 5")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    handled(
        "PostgreSQL",
        "a row that comes under the key= of another one",
        "refused, with the key",
    )


def test_keys_that_only_the_declared_type_makes_one(base: Base) -> None:
    base.do("CREATE TABLE t (id text PRIMARY KEY, n int)", "INSERT INTO t VALUES ('1', 1), ('01', 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    with pytest.raises(KeyRepeatedError, match=r'two have \{"id":1\}'):
        base.run(node)
    handled("PostgreSQL", "keys '1' and '01' of a text, declared as INT", "refused, with the key")
