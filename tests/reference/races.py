"""The documents' interleavings of the foreign-key join's messages, as events to play.

    (4, "ask", 2)       step 4: the next subscription message reaches the right row 2
    (6, "answer", 2)    step 6: the next answer of the right row 2 reaches the left side
    (1, "left", "k", 1), (2, "right", 1, "foo2")    changes of the tables
    (0, "drain")        all messages under way are delivered

Step 0 is before the document's first. Source: golden `s001.race.*` and `s001.fkchange.*`, whose
events are worded; here they are what a protocol does.
"""

from typing import Any

from tests.golden.load import tables

Event = tuple[Any, ...]  # step, what happens, with what

TABLES = {table["id"].removeprefix("s001."): table for table in tables() if table["id"].startswith("s001.")}
OLD, NEW, LATER = {"fk": "FK-1"}, {"fk": "FK-2"}, {"fk": "FK-2", "v": 2}

# Hash examples: the document's step 6 unsubscribes from an unchanged foreign key; 4.3.1 does not.
QUICK_UPDATES: list[Event] = [
    *[(1, "right", "Y", "bar"), (2, "left", "A", {"fk": "Y", "v": 1}), (3, "left", "A", {"fk": "Y", "v": 2})],
    *[(4, "ask", "Y"), (5, "answer", "Y"), (7, "ask", "Y"), (8, "answer", "Y")],
]
CHANGED: list[Event] = [(0, "left", "Key", OLD), (0, "drain"), (1, "left", "Key", NEW), (3, "ask", "FK-1")]
EVENTS: dict[str, list[Event]] = {
    "race.hash_absent": QUICK_UPDATES,
    "race.hash_present": QUICK_UPDATES,
    "race.delete": [(1, "left", "Key", None), (2, "ask", "FK"), (3, "ask of left", None), (4, "answer", None)],
    "fkchange.partner_found": [*CHANGED, (5, "ask", "FK-2"), (8, "answer", "FK-2")],
    "fkchange.partner_missing_inner": [*CHANGED, (5, "ask", "FK-2"), (7, "answer", "FK-2")],
    "fkchange.partner_missing_left": [*CHANGED, (5, "ask", "FK-2"), (7, "answer", "FK-2")],
    "fkchange.stale_response": [*CHANGED, (5, "ask", "FK-2"), (5, "left", "Key", LATER), (6, "answer", "FK-2")],
    "race.cross_partition_reorder": [
        *[(1, "left", "k", 1), (2, "left", "k", 2), (3, "ask", 2), (4, "answer", 2)],
        *[(5, "ask", 1), (6, "answer", 1), (7, "ask", 1)],
    ],
    "race.cross_partition_in_order": [
        *[(1, "left", "k", 1), (2, "ask", 1), (3, "left", "k", 2), (4, "answer", 1)],
        *[(5, "ask", 1), (6, "ask", 2), (7, "answer", 2)],
    ],
    "race.there_and_back": [
        *[(1, "left", "k", 1), (2, "left", "k", 2), (3, "left", "k", 1), (4, "ask", 1), (5, "answer", 1)],
        *[(6, "ask", 2), (7, "answer", 2), (8, "ask", 1), (8, "ask", 1), (9, "answer", 1)],
    ],
    "race.delete_then_reinsert": [
        *[
            (1, "left", "k", None),
            (2, "left", "k", 1),
            (3, "ask", 1),
            (4, "answer", 1),
            (5, "ask", 1),
            (6, "answer", 1),
        ],
    ],
    "race.delete_overtakes_answer": [
        *[
            (1, "left", "k", 1),
            (2, "left", "k", None),
            (3, "ask", 1),
            (4, "answer", 1),
            (5, "ask", 1),
            (6, "answer", 1),
        ],
    ],
    "race.right_update_during_fk_change": [
        *[
            (1, "left", "k", 2),
            (2, "right", 1, "foo2"),
            (3, "answer", 1),
            (4, "ask", 1),
            (5, "ask", 2),
            (6, "answer", 2),
        ],
    ],
}


def fk_of(_key: Any, value: Any) -> Any:
    """The golden tables show a left value as its foreign key, or with the key inside."""
    if value == "present before":
        return "FK"
    return value["fk"] if isinstance(value, dict) else value
