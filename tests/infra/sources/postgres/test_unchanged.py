"""Values that lie out of line and were not changed: the log leaves them out, and they are fetched from our own rows."""

from __future__ import annotations

import pytest

from rivermeet.pipelines import Pipeline, Table, expr
from tests.infra.sources.postgres.base import Base

pytestmark = pytest.mark.slow


def notes(base: Base, **options: object) -> Table:
    base.do(
        "CREATE TABLE notes (id int PRIMARY KEY, n int, body text)", "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL"
    )
    reads = base.table("notes", {"id": "INT", "n": "INT", "body": "STRING"})
    return Pipeline("shop").table("notes", reads, **options)  # pyright: ignore[reportArgumentType]


def long(letter: str) -> str:
    return f"repeat('{letter}', 5000)"


NOTES = "SELECT id, n, body FROM notes"


@pytest.mark.parametrize("folded", [True, False])
def test_they_come_from_our_table_and_from_earlier_rows(base: Base, folded: bool) -> None:
    """Under its own key, under the one that the row had before, and not from a row that came there since."""
    node = notes(base)
    base.do(*[f"INSERT INTO notes VALUES ({n}, 0, {long(str(n))})" for n in range(1, 7)])
    base.run(node)
    base.do("UPDATE notes SET n = 1 WHERE id <= 6")
    base.run(node)
    base.same(node, NOTES)
    base.do(
        "UPDATE notes SET n = 2 WHERE id = 1",
        f"UPDATE notes SET body = {long('y')} WHERE id = 2",
        "UPDATE notes SET n = 3 WHERE id = 2",
        "UPDATE notes SET id = 13 WHERE id = 3",
        "UPDATE notes SET id = 23, n = 9 WHERE id = 13",
        f"INSERT INTO notes VALUES (3, 0, {long('z')})",
        "UPDATE notes SET n = 4 WHERE id = 3",
        "UPDATE notes SET id = 33 WHERE id = 3",
        "UPDATE notes SET body = NULL WHERE id = 4",
        "UPDATE notes SET n = 5 WHERE id = 4",
        "DELETE FROM notes WHERE id = 5",
        f"INSERT INTO notes VALUES (5, 0, {long('w')})",
        "UPDATE notes SET n = 6 WHERE id = 5",
    )
    base.run(node)
    base.same(node, NOTES)
    base.do("UPDATE notes SET n = n + 1", "UPDATE notes SET id = id + 100")
    base.run(node)
    base.same(node, NOTES)


def test_with_the_whole_old_row_nothing_has_to_be_fetched(base: Base) -> None:
    node = notes(base, value={"size": expr("length(body)", "INT"), "n": "n"})
    base.do("ALTER TABLE notes REPLICA IDENTITY FULL", f"INSERT INTO notes VALUES (1, 0, {long('a')})")
    base.run(node)
    base.do("UPDATE notes SET n = 1", "UPDATE notes SET id = 2")
    base.run(node)
    assert base.folded(node) == [(2, 5000, 1)]


@pytest.mark.prove
def test_an_expression_alone_does_not_keep_a_value(base: Base) -> None:
    """What no record has is not guessed."""
    node = notes(base, value={"size": expr("length(body)", "INT"), "n": "n"}, max_bad_share=1)
    base.do(f"INSERT INTO notes VALUES (1, 0, {long('a')})")
    base.run(node)
    base.do("UPDATE notes SET n = 1")
    base.run(node)
    assert base.folded(node) == [(1, 5000, 0)]
    (letter,) = base.letters(node)
    assert letter["reason"].startswith("column 'body' was not changed, so that the log leaves it out")
    base.resnapshot(node)
    assert base.folded(node) == [(1, 5000, 1)]


@pytest.mark.prove
def test_a_column_that_is_declared_since_is_not_known(base: Base) -> None:
    """Also not where all rows end in the same epoch."""
    node = notes(base, max_bad_share=1)
    base.do("ALTER TABLE notes ADD more text", "ALTER TABLE notes ALTER more SET STORAGE EXTERNAL")
    base.do(f"INSERT INTO notes VALUES (1, 0, {long('a')}, {long('b')}), (2, 0, 'x', 'y')")
    base.run(node)
    reads = base.table("notes", {"id": "INT", "n": "INT", "body": "STRING", "more": "STRING"})
    wider = Pipeline("shop").table("notes", reads, max_bad_share=1)
    base.do("UPDATE notes SET n = 1")
    base.run(wider)
    assert [(row[0], row[1], row[3]) for row in base.folded(wider)] == [(1, 0, None), (2, 1, "y")]
    assert [letter["reason"].split(",")[0] for letter in base.letters(wider)] == ["column 'more' was not changed"]
    base.do("TRUNCATE notes", "INSERT INTO notes VALUES (3, 3)")
    base.run(wider)
    assert base.folded(wider) == [(3, 3, None, None)]
