"""The foreign-key join's messages in the documents' interleavings, and in any other."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.reference.records import Record, Row, run
from tests.reference.foreign_key.subscriptions import Subscription, SubscriptionProtocol, prefix_bytes
from tests.reference.histories import foreign_key_of, histories
from tests.reference.races import CHANGED, EVENTS, LATER, OLD, TABLES, Event, fk_of


def drained(protocol: SubscriptionProtocol) -> list[Row]:
    rows: list[Row] = []
    while protocol.waiting():
        rows += protocol.deliver(protocol.waiting()[0])
    return rows


def played(protocol: SubscriptionProtocol, events: list[Event]) -> tuple[list[tuple[int, Row]], list[int]]:
    """Rows by step, and the steps whose answer was dropped."""
    rows: list[tuple[int, Row]] = []
    dropped: list[int] = []
    for step, what, *with_what in events:
        if what in ("left", "right"):
            protocol.change(Record(what, *with_what, timestamp=step))
        elif what == "drain":
            rows += [(step, row) for row in drained(protocol)]
        elif what == "answer":
            (channel,) = with_what
            given_rows = protocol.deliver(("answers", channel))
            rows += [(step, row) for row in given_rows]
            dropped += [] if given_rows else [step]
        elif what == "ask" or protocol.how == "left":
            protocol.deliver(("asks", *with_what))
    return rows, dropped


INTERLEAVINGS = [
    (name, how) for name, table in TABLES.items() if table["kind"] == "interleaving" for how in table["type"].split("+")
]


@pytest.mark.parametrize(("name", "how"), INTERLEAVINGS)
def test_the_documents_interleavings_end_as_printed(name: str, how: str) -> None:
    table = TABLES[name]
    protocol = SubscriptionProtocol(how, fk_of, hashed=name != "race.hash_absent")
    initial = [
        (0, side, row["key"], row["value"]) for side in ("right", "left") for row in table["initial_state"][side]
    ]
    if name.startswith("fkchange"):
        initial = [event for event in initial if event[1] == "right"]  # the left row is shown after its change
    events = EVENTS[name]
    if (name, how) == ("race.delete", "inner"):
        events = [*events[:2], (4, "answer", "FK")]  # in a left join nobody's key answers, here the old one
    rows, dropped = played(protocol, [*initial, (0, "drain"), *events])
    emitted = [(step, row.key, row.value) for step, row in rows if step > 0]
    expected = [(e["at_step"], e["key"], pair(e["value"])) for e in table["expected"]]
    assert emitted == expected
    assert dropped == table["discarded_at"]
    folded = fold([row for _, row in rows])
    if name == "fkchange.stale_response":
        assert folded == {"Key": (OLD, "old partner")}  # unchanged until the present value is answered
        assert fold(drained(protocol)) == {"Key": (LATER, "RHS-Result")}
    else:
        assert folded == {key: pair(value) for key, value in table["final"].items() if value is not None}
        assert fold([*[row for _, row in rows], *drained(protocol)]) == folded


def pair(value: dict[str, Any] | None) -> tuple[Any, Any] | None:
    return None if value is None else (value["left"], value["right"])


def fold(rows: list[Row]) -> dict[Any, Any]:
    table = {row.key: row.value for row in rows}
    return {key: value for key, value in table.items() if value is not None}


def test_a_changed_foreign_key_sends_the_printed_messages() -> None:
    for table in TABLES.values():
        if table["id"].startswith("s001.fkchange"):
            protocol = SubscriptionProtocol(table["type"].split("+")[0], fk_of)
            played(protocol, [*CHANGED[:-1]])
            sent = [[*messages] for messages in protocol.channels.values() if messages]
            assert [(m.foreign_key, m.key, m.instruction.name) for (m,) in sent if isinstance(m, Subscription)] == [
                (*event["message"]["combined_key"], event["message"]["instruction"]) for event in table["events"][:2]
            ]


def test_instructions_are_the_printed_ones() -> None:
    changes: dict[str, tuple[list[Any], list[tuple[Any, str]]]] = {
        "first insert (no previous FK)": ([1], [(1, "new FK")]),
        "FK change": ([1, 2], [(1, "old FK"), (2, "new FK")]),
        "delete": ([1, None], [(1, "old FK")]),
        "insert after delete": ([1, None, 1], [(1, "new FK")]),
    }
    for change, (values, to) in changes.items():
        protocol = SubscriptionProtocol("inner", fk_of)
        for value in values:
            drained(protocol)
            protocol.change(Record("left", "k", value, 0))
        printed = {r["to"]: r["instruction"] for r in TABLES["instructions"]["rules"] if r["change"] == change}
        messages = [m for ms in protocol.channels.values() for m in ms]
        sent = {m.foreign_key: m.instruction.name for m in messages if isinstance(m, Subscription)}
        assert sent == {key: printed[role] for key, role in to}


def test_the_scan_prefix_is_length_and_foreign_key() -> None:
    assert [rule["layout"][:2] for rule in TABLES["combined_key"]["rules"][:2]] == [
        ["4-byte length of serialized FK", "serialized FK"]
    ] * 2
    assert prefix_bytes("f") == b"\0\0\0\1f"
    assert not prefix_bytes("ff").startswith(prefix_bytes("f"))


# --- any interleaving ---


def interleaved(protocol: SubscriptionProtocol, h: list[Record], rng: Random, wait: bool = False) -> list[Row]:
    """Records in their order, messages in any. `wait`: a left change finds no message under way, a right one no ask."""
    rows: list[Row] = []
    records = list(h)
    while records or protocol.waiting():
        channels = protocol.waiting()
        # A right row that goes while a left one asks for it leaves an inner join's old row standing (`LOST`).
        held = wait and any(records and (records[0].side == "left" or kind == "asks") for kind, *_ in channels)
        if records and not held and (not channels or rng.random() < 0.5):
            protocol.change(records.pop(0))
        else:
            rows += protocol.deliver(rng.choice(channels))
    return rows


def protocols(how: str, always_answer: bool) -> Callable[[], SubscriptionProtocol]:
    return lambda: SubscriptionProtocol(how, foreign_key_of, always_answer=always_answer)


@pytest.mark.parametrize(
    ("how", "always_answer", "wait"),
    [("left", False, False), ("inner", True, False), ("inner", False, True)],
)
@given(h=histories("foreign_key"), rng=st.randoms(use_true_random=False))
def test_every_interleaving_ends_as_the_record_by_record_join(
    how: str, always_answer: bool, wait: bool, h: list[Record], rng: Random
) -> None:
    join = ForeignKeyJoin(how, foreign_key_of)
    rows = run(join, h)
    assert fold(interleaved(protocols(how, always_answer)(), h, rng, wait)) == fold(rows)


LOST: dict[str, list[Event]] = {
    "right row gone, left row changed": [(1, "right", "f", None), (2, "left", "k", "f|2")],
    "left row deleted and inserted": [(1, "left", "k", None), (2, "left", "k", "g|1")],
    "foreign key null, then null again": [(1, "left", "k", "|1"), (2, "left", "k", "|2")],
}


@pytest.mark.parametrize("race", LOST)
@pytest.mark.parametrize("always_answer", [False, True])
def test_inner_instructions_of_4_3_1_lose_a_tombstone_in_three_races(race: str, always_answer: bool) -> None:
    before: list[Event] = [(0, "right", "f", "x"), (0, "left", "k", "f|1"), (0, "drain")]
    protocol = protocols("inner", always_answer)()
    rows, _ = played(protocol, [*before, *LOST[race], (3, "drain")])
    assert fold([row for _, row in rows]) == ({} if always_answer else {"k": ("f|1", "x")})
