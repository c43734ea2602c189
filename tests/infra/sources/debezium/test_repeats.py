"""Which records of a partition are read: repeats, marks for compaction and messages are skipped and counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.debezium.envelope import Change, Envelope, envelope_decode
from rivermeet.infra.sources.debezium.repeats import AnotherLogError, Repeats
from rivermeet.pipelines import Debezium
from tests.infra.sources.debezium.recorded import Recorded, recorded
from tests.reliability import handled

SECOND = 1_000_000_000
PG, MYSQL, ELSEWHERE = "postgresql shop", "mysql shop", "postgresql eu"


def made(op: str, row: object, first: int, *more: int, at: float = 0, on: int | None = None, log: str = PG) -> Envelope:
    """A change of a row, written ``at`` seconds and committed ``on`` ms; by default as its position says."""
    position, committed = (first, *more), first if on is None else on
    shared = log != MYSQL and len(position) < 3
    change = Change(
        log,
        position,
        (op, None, row),
        committed,
        int(at * SECOND),
        True,
        shared,
        op == "r",
        op == "r",
    )
    return Envelope("", op, change)


Given = tuple[str | None, Envelope | None]
"""A key, and an envelope; None: no value."""


def read(given: Sequence[Given], seen: Repeats | None = None) -> list[int]:
    """Numbers of the records that are read."""
    seen = seen if seen is not None else Repeats()
    return [n for n, (key, value) in enumerate(given) if not seen.passes_over(0, key.encode() if key else None, value)]


def in_epochs(given: Sequence[Given], *cuts: int) -> list[int]:
    """The same, in epochs that end in front of these records."""
    found: list[int] = []
    kept: str | None = None
    for start, end in zip((0, *cuts), (*cuts, len(given)), strict=True):
        seen = Repeats.of(kept, "t")
        found += [start + number for number in read(given[start:end], seen)]
        kept = seen.to_json("t")
    return found


C, D, R, U = "c", "d", "r", "u"
CASES: dict[str, tuple[Sequence[Given], list[int]]] = {
    "changes": ([("a", made(C, 1, 1, 1)), ("a", made(U, 2, 2, 2))], [0, 1]),
    "a page of a COPY into a table without a key": (
        [(None, made(C, n, 400, 500, at=n / 1000)) for n in (1, 2, 3, 4, 5)],
        [0, 1, 2, 3, 4],
    ),
    "a page of rows that are alike": (
        [(None, made(C, "x", 400, 500, at=n / 1000)) for n in (1, 2, 3, 4, 5)],
        [0, 1, 2, 3, 4],
    ),
    "a page of one key, of message.key.columns": (
        [("k", made(C, n % 2, 400, 500, at=n / 1000)) for n in (1, 2, 3, 4, 5)],
        [0, 1, 2, 3, 4],
    ),
    "a page again, after a start": (
        [(None, made(C, row, 400, 500, at=at)) for row, at in [("x", 0), ("y", 0.1), ("x", 0.2)]]
        + [(None, made(C, row, 400, 500, at=at)) for row, at in [("x", 9), ("y", 9.1), ("x", 9.2)]]
        + [(None, made(C, "x", 600, 600, at=10))],
        [0, 1, 2, 6],
    ),
    "the rest of a page again, and a row that was not written before": (
        [(None, made(C, row, 400, 500, at=at)) for row, at in [("x", 0), ("y", 0.1), ("z", 0.2)]]
        + [(None, made(C, row, 400, 500, at=at)) for row, at in [("y", 9), ("z", 9.1), ("new", 9.2)]],
        [0, 1, 2, 5],
    ),
    "one change again, and once more": (
        [("a", made(C, 1, 5, 5)), ("a", made(C, 1, 5, 5, at=9)), ("a", made(C, 1, 5, 5, at=30))],
        [0],
    ),
    "a batch that its producer sent twice": (
        [(None, made(C, row, 5, 5, at=at)) for row, at in 2 * [("x", 1), ("y", 1.1)]],
        [0, 1],
    ),
    "a page during which the connector waited": (
        [(None, made(C, row, 5, 5, at=at)) for row, at in [("x", 1), ("y", 9), ("z", 20)]],
        [0, 1, 2],
    ),
    "a run from an earlier position on": (
        [(None, made(C, row, int(p), int(p), at=p)) for p, row in [(1, "a"), (2, "b"), (3, "x"), (3.1, "x")]]
        + [(None, made(C, row, int(p), int(p), at=p + 9)) for p, row in [(2, "b"), (3, "x"), (3.1, "x")]]
        + [(None, made(C, row, int(p), int(p), at=p + 9)) for p, row in [(3.2, "x"), (4, "c")]],
        [0, 1, 2, 3, 7, 8],
    ),
    "a run that begins again before it has come to its end": (
        [(None, made(C, p, p, p)) for p in (1, 2, 3)] + [(None, made(C, p, p, p)) for p in (1, 2, 1, 2, 3, 4)],
        [0, 1, 2, 8],
    ),
    "a run without the changes that compaction removed": (
        [(key, made(C, 1, p, p)) for key, p in [("a", 3), ("b", 3), ("b", 2), ("b", 3), ("c", 3)]],
        [0, 1, 4],
    ),
    "an update of a key: a delete and an insert of one position": (
        [("a", made(D, None, 7, 7)), ("a", None), ("b", made(C, 1, 7, 7))],
        [0, 2],
    ),
    "a delete again, with its mark": (
        [*2 * [("a", made(C, 1, 1, 1)), ("a", made(D, None, 2, 2)), ("a", None)], ("a", made(C, 2, 3, 3))],
        [0, 1, 6],
    ),
    "deletes of a table without a key, with marks that have none": (
        [(None, made(D, None, 2, 2)), (None, None), (None, made(D, None, 3, 3)), (None, None)],
        [0, 2],
    ),
    "the first transaction, before which no commit is known": (
        [("a", made(C, n, *p, on=n)) for n, p in [(1, (0, 10)), (1, (0, 12)), (2, (20, 11)), (3, (30, 22))]]
        + [("a", made(C, n, *p, on=n)) for n, p in [(1, (0, 10)), (1, (0, 12)), (2, (20, 11)), (3, (30, 22))]]
        + [("a", made(C, 4, 40, 31, on=4))],
        [0, 1, 2, 3, 8],
    ),
    "the rest of the first transaction, after what was stored": (
        [("a", made(C, n, *p, on=1)) for n, p in [(1, (0, 10)), (2, (0, 12)), (2, (11, 12)), (3, (11, 14))]],
        [0, 1, 3],
    ),
    "a connector that starts over, behind what was read": (
        [("a", made(C, 1, 20, 22)), ("a", made(C, 2, 0, 40, on=40)), ("a", made(C, 3, 50, 45))],
        [0, 1, 2],
    ),
    "long transactions: their own place is lower than that of the one before": (
        [("a", made(C, n, *p)) for n, p in enumerate([(10, 9), (20, 4), (20, 6), (30, 5)])],
        [0, 1, 2, 3],
    ),
    "rows of a snapshot, which share a position, and what comes behind them": (
        [("a", made(R, 1, 0, 5)), (None, made(R, 1, 0, 5)), (None, made(R, 1, 0, 5)), ("a", made(U, 2, 0, 6))],
        [0, 1, 2, 3],
    ),
    "a new snapshot of a server of MySQL whose log has lower numbers": (
        [("a", made(op, n, n, 4, 0, log=MYSQL)) for n, op in [(12, U), (3, R), (4, U)]],
        [0, 1, 2],
    ),
    "a new snapshot of a database that was put back": (
        [("a", made(U, 1, 9, 9)), ("a", made(R, 1, 0, 5)), ("b", made(R, 1, 0, 5)), ("a", made(U, 2, 0, 6))],
        [0, 1, 2, 3],
    ),
    "a snapshot beside the stream": (
        [("a", made(U, 1, 9, 9)), ("b", made(R, 1, 9, 12)), ("a", made(U, 1, 9, 9, at=9)), ("a", made(U, 2, 10, 10))],
        [0, 1, 3],
    ),
    "a run that is repeated, with rows in it of a snapshot beside the stream": (
        [("a", made(U, p, p, p)) for p in (1, 2, 3)]
        + [("a", made(U, 1, 1, 1)), ("b", made(R, 1, 1, 1)), ("a", made(U, 2, 2, 2)), ("a", made(U, 3, 3, 3, at=9))],
        [0, 1, 2, 4],
    ),
    "rows of one event of MySQL's log, and an update of a key there": (
        [("a", made(C, n, 12, 4, n, log=MYSQL, on=9)) for n in (0, 1, 2)]
        + [("a", made(D, None, 12, 9, 0, log=MYSQL, on=9)), ("b", made(C, 1, 12, 9, 0, log=MYSQL, on=9))]
        + [("a", made(C, 2, 12, 4, 2, log=MYSQL, on=9)), ("a", made(D, None, 12, 9, 0, log=MYSQL, on=9))]
        + [("b", made(C, 1, 12, 9, 0, log=MYSQL, on=9)), ("b", made(U, 1, 13, 4, 0, log=MYSQL, on=9))],
        [0, 1, 2, 3, 4, 8],
    ),
    "a change of MySQL's again, written in the same moment": (
        [("a", made(C, 1, 12, 4, 0, log=MYSQL, at=at)) for at in (0, 0.001)],
        [0],
    ),
    "two connectors in one topic": (
        [("a", made(C, n, p, p, log=log)) for n, (p, log) in enumerate([(9, PG), (2, ELSEWHERE), (10, PG)])]
        + [("a", made(C, n, p, p, log=log)) for n, p, log in [(1, 2, ELSEWHERE), (3, 3, ELSEWHERE), (4, 11, PG)]],
        [0, 1, 2, 4, 5],
    ),
    "changes that the connector counts": (
        [(None, made(C, "x", 5, 5, n, at=n)) for n in (1, 2, 3)]
        + [(None, made(C, "x", 5, 5, n, at=3)) for n in (2, 3, 4)],
        [0, 1, 2, 5],
    ),
    "changes without a position": ([("a", Envelope("", U)), ("a", Envelope("", U))], [0, 1]),
    "a mark whose delete was compacted away is a delete": ([("a", None)], [0]),
    "a mark of another key": ([("a", made(D, None, 2, 2)), ("b", None)], [0, 1]),
    "a message": ([("", Envelope("", "m")), ("a", made(C, 1, 2, 2))], [1]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_wherever_an_epoch_ends(name: str) -> None:
    given, expected = CASES[name]
    assert read(given) == expected
    for cut in range(len(given) + 1):
        assert in_epochs(given, cut) == expected, cut
    assert in_epochs(given, *range(1, len(given))) == expected, "an epoch for each record"


def test_what_is_counted() -> None:
    seen = Repeats()
    read([("a", made(D, None, 2, 2)), ("a", None), ("a", made(D, None, 2, 2, at=9)), ("", Envelope("", "m"))], seen)
    assert seen.counts == {"repeats": 1, "delete_marks": 1, "messages": 1}
    assert Repeats.of(seen.to_json("t"), "another").partitions == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(made(U, 1, 900, 901), made(U, 1, 40, 41, on=5_000), id="a database that was put back"),
        pytest.param(made(U, 1, 900, 901), made(U, 1, 0, 41, on=5_000), id="a new slot on it, without a snapshot"),
        pytest.param(
            made(U, 1, 12, 4, 0, log=MYSQL, on=1), made(U, 1, 1, 4, 0, log=MYSQL, on=2), id="RESET MASTER of MySQL"
        ),
    ],
)
def test_changes_of_another_log_are_refused(before: Envelope, after: Envelope) -> None:
    """They lie before what was read, and were made after it; accepted, they are read, and repeats of them are none."""
    kept = Repeats()
    read([("a", before)], kept)
    state = kept.to_json("t")
    with pytest.raises(AnotherLogError, match=r"at \[\d+, .*\], below \["):
        read([("a", after)], Repeats.of(state, "t"))
    again = after._replace(change=after.change and after.change._replace(written=9 * SECOND))
    assert read([("a", after), ("a", again)], Repeats.of(state, "t", anew=True)) == [0]


def test_what_an_older_version_has_kept() -> None:
    """Its highest position, with the keys there; PostgreSQL's and MySQL's."""
    old = {"topic": "t", "partitions": {"0": [["", 7, 9], ["=YQ=="], "d", "=YQ==", None]}}
    given = [("a", None), ("a", made(C, 1, 5, 6, 0)), ("a", made(D, None, 7, 9, 0))]
    given.append(("b", made(C, 1, 7, 9, 0)))
    assert read(given, Repeats.of(json.dumps(old), "t")) == [3]
    old["partitions"] = {"0": [["223344", 12, 4, 0], [], "u", "", None], "1": [None, [], None, "", None]}
    rows = [("a", made(U, 1, *p, log=MYSQL)) for p in ((11, 9, 0, 0), (12, 4, 1, 0))]
    assert read(rows, Repeats.of(json.dumps(old), "t")) == [1]


DECODE: Callable[[bytes], Envelope] = envelope_decode(Debezium({"n": "INT"}), Registry("", Path()))


def envelopes(records: Sequence[Recorded]) -> list[Given]:
    return [
        (one.key.decode() if one.key else None, DECODE(one.value) if one.value is not None else None) for one in records
    ]


FIRST, REST = recorded("restart")[:14], recorded("restart")[14:]
STARTS = [n for n in range(1, 12) if FIRST[-n].value is not None]
"""How many lines a producer may write again: it does not begin with a mark, and a snapshot would be a new one."""


@pytest.mark.parametrize("again", STARTS)
def test_a_producer_that_repeats_what_it_wrote(again: int) -> None:
    """The last lines of a recorded stream once more."""
    assert len(read(envelopes([*FIRST, *FIRST[-again:], *REST]))) == len(read(envelopes([*FIRST, *REST])))


@pytest.mark.parametrize("name", ["copies", "counted"])
def test_a_connector_that_was_killed_before_it_had_stored_its_offset(name: str) -> None:
    """Pages of COPY, a run of them, the newest alone: each change is read once, wherever an epoch ends.

    Each table in a topic of its own, and all in one; ``counted`` has transactions' ends and counts besides.
    """
    rows: dict[str, list[object]] = {
        "keyless": [(0, "s"), (0, "s"), (1, "x"), (2, "y"), (1, "x"), (3, "z"), None, (5, "q"), (5, "q"), (6, "q")],
        "mapped": [(1, 1), (7, 1), (7, 2), (7, 2), (8, 3), None],
        "keyed": [(1, 1), (10, 1), (11, 1), (12, 1), (10, 2), None, (20, 1), (30, 1), (31, 1)],
    }
    for table, expected in rows.items():
        given = envelopes(recorded(name, table))
        found = read(given)
        changes = [value.change for _, value in (given[n] for n in found) if value is not None]
        assert [change and change.content[2] and tuple(change.content[2].values()) for change in changes] == expected
        for cut in range(len(given) + 1):
            assert in_epochs(given, cut) == found, cut
    together = envelopes([one for one in recorded(name, "") if not one.topic.endswith(".transaction")])
    assert len(read(together)) == sum(map(len, rows.values()))
    handled("Debezium", "rows of a COPY, which share a position, with and without a key", "every row is read")
    handled("Debezium", "a connector that was killed repeats pages of COPY", "each change once, wherever an epoch ends")
