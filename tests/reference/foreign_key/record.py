"""Cases of foreign-key joins, and the recording of what Kafka Streams answers to them.

    python -m tests.reference.foreign_key.record ORACLE_DIR/run

writes tests/golden/oracle_foreign_key.jsonl.gz, a case a line in the oracle's format with
`semantics` (the profile) and `output` added. The same seed gives the same file.

    "kafka-4" on 4.3.1, with and without options    "0.10.2" on 3.0.2
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.reference.histories import FAMILIES, NASTY_FOREIGN_KEY, Line, random_histories
from tests.reference.recording import record

RECORDED = Path(__file__).parents[2] / "golden" / "oracle_foreign_key.jsonl.gz"
VERSIONS = {"kafka-4": "4.3.1", "0.10.2": "3.0.2"}
HOWS = ("inner", "left")

# (semantics, group, options to draw, cases per type); a random history each.
GROUPS: list[tuple[str, str, tuple[str, ...], int]] = [
    ("kafka-4", "plain", (), 300),
    ("kafka-4", "materialized", ("materialized",), 15),
    ("kafka-4", "left-versioned", ("left_versioned_ms",), 40),
    ("kafka-4", "right-versioned", ("right_versioned_ms",), 40),
    ("kafka-4", "both-versioned", ("left_versioned_ms", "right_versioned_ms"), 25),
    ("kafka-4", "cache", ("cache",), 50),
    ("kafka-4", "cache-materialized", ("cache", "materialized"), 30),
    ("kafka-4", "cache-left-versioned", ("cache", "materialized?", "left_versioned_ms"), 30),
    ("kafka-4", "cache-right-versioned", ("cache", "materialized?", "right_versioned_ms"), 30),
    ("kafka-4", "cache-both-versioned", ("cache", "materialized", "left_versioned_ms", "right_versioned_ms"), 20),
    ("0.10.2", "plain", (), 150),
    ("0.10.2", "cache", ("cache", "materialized?"), 40),
]
RETENTIONS = (0, 1, 3, 10, 40, 1000)
COMMITS = (1, 2, 3, 4, 5, 7, 10, 100)
COARSE = 1000  # at this step the history store's segments of 2 s and more come into play

# Written by hand: what a versioned table remembers of a key deleted at its latest version's own
# timestamp (nothing, or that an older version ended there), and the tombstone that a cache loses.
FORGOTTEN: list[Line] = [
    ("right", "f", "x", 1),
    *[("left", "p1", "f|1", 10), ("left", "p1", None, 10), ("left", "p1", "f|2", 7)],  # the latest: nothing is left
    *[("left", "p2", "f|1", 5), ("left", "p2", "f|2", 10), ("left", "p2", None, 10), ("left", "p2", "f|1", 7)],
    *[("left", "p3", "f|1", 10), ("left", "p3", "f|2", 5), ("left", "p3", None, 10), ("left", "p3", "f|2", 7)],
    *[("left", "p4", "f|1", 10), ("left", "p4", None, 5), ("left", "p4", None, 10), ("left", "p4", "f|2", 7)],
    *[("left", "p5", None, 5), ("left", "p5", "f|1", 10), ("left", "p5", None, 10), ("left", "p5", "f|2", 7)],
    *[("left", "p6", None, 5), ("left", "p6", "f|1", 10), ("left", "p6", "f|1", 5), ("left", "p6", None, 10)],
    *[("left", "p6", "f|2", 7), ("left", "p7", None, 5), ("left", "p7", "f|1", 10), ("left", "p7", "f|1", 3)],
    *[("left", "p7", None, 10), ("left", "p7", "f|2", 7)],
]
LOST: list[Line] = [
    *[("right", "f", "x", 1), ("left", "p1", "f|1", 2), ("right", "f", None, 3), ("left", "p1", "f|2", 4)],
]
BY_HAND: list[tuple[str, str, dict[str, Any], list[Line]]] = [
    ("kafka-4", "nasty", {}, NASTY_FOREIGN_KEY),
    ("0.10.2", "nasty", {}, NASTY_FOREIGN_KEY),
    ("kafka-4", "nasty-cache", {"cache": True, "commit_every": 3}, NASTY_FOREIGN_KEY),
    ("kafka-4", "forgotten", {"left_versioned_ms": 100}, FORGOTTEN),
    ("kafka-4", "lost", {"cache": True, "commit_every": 2}, LOST),
]


def cases(seed: int = 0, times: int = 1) -> list[dict[str, Any]]:
    """All cases without answers; another seed gives others, `times` more of them."""
    return [
        {
            "name": f"fk.{semantics}.{name}.{how}.{i:04}",
            "join": "fk-table-table",
            "type": how,
            "semantics": semantics,
            **drawn(random.Random(f"{seed} {semantics} {name} {how} {i}"), options),
        }
        for semantics, name, options, n in GROUPS
        for how in HOWS
        for i in range(n * times)
    ] + [
        {
            "name": f"fk.{semantics}.by-hand.{how}.{name}",
            "join": "fk-table-table",
            "type": how,
            "semantics": semantics,
            **options,
            "input": [dict(zip(("side", "key", "value", "ts"), line, strict=True)) for line in lines],
        }
        for semantics, name, options, lines in BY_HAND
        for how in HOWS
    ]


def drawn(rng: random.Random, options: Sequence[str]) -> dict[str, Any]:
    """Options and a history to their scale."""
    versioned = [name for name in options if name.endswith("_ms")]
    scale = rng.choice((1, 1, COARSE)) if versioned else 1
    case: dict[str, Any] = {name: rng.choice(RETENTIONS) * scale for name in versioned}
    if "cache" in options:
        case |= {"cache": True, "commit_every": rng.choice(COMMITS)}
    if "materialized" in options or ("materialized?" in options and rng.random() < 0.5):
        case["materialized"] = True
    (history,) = random_histories(rng.randrange(10**9), 1, "foreign_key", size=rng.randint(20, 30))
    case["input"] = [
        {"side": r.side, "key": key_of(rng, r.side, r.key), "value": r.value, "ts": r.timestamp * scale + jitter}
        for r in history
        for jitter in [rng.choice((0, 0, rng.randrange(scale)))]
    ]
    return case


def key_of(rng: random.Random, side: str, key: Any) -> Any:
    """Fewer left keys than the family has: more changes of each."""
    return rng.choice(FAMILIES["foreign_key"].left_keys[:2]) if side == "left" and rng.random() < 0.4 else key


if __name__ == "__main__":
    record(RECORDED, sys.argv[1], cases(), VERSIONS)
