"""Random cases of the lookup and table joins, for Kafka Streams to answer.

    .venv/bin/python -m tests.reference.tables.record cases.json 4.3.1      to put to the oracle
    .venv/bin/python -m tests.reference.tables.record record OUT.json ...   its answers, as a golden

A case is what Kafka Streams' oracle reads (`join`, `type`, options, `input`) and `semantics`, the
profile that has to answer the same. Kafka Streams itself is asked once: a test compares the
recorded answers, `tests/golden/oracle_tables.jsonl.gz`, row for row.
"""

import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.reference.histories import DELAYS, FAMILIES, STEPS, Draw, Family, timed

GOLDEN = Path(__file__).parents[2] / "golden" / "oracle_tables.jsonl.gz"
VERSIONS = {"kafka-4": "4.3.1", "0.10.2": "3.0.2", "0.10.0": "0.10.1.1"}

KEYS = ("a", "a", "b", "c", "ab", None)  # "ab" sorts between "a" and "b": order of equal timestamps
FAMILY = {
    "st": Family(KEYS, ("L1", "L2", "L3", None), KEYS, ("R1", "R2", "R3", None, None)),
    "tt": Family(KEYS, ("L1", "L2", "L2", None, None), KEYS, ("R1", "R2", "R2", None, None)),
    "key": Family(("f", "g", "ff", None), ("L1", "L2", None), ("f", "f", "g", "ff", None), ("x", "y", "z", None)),
    "fk": FAMILIES["stream_global"],
}
JOINS = {"st": "stream-table", "tt": "table-table", "sg": "stream-globaltable"}
TYPES = {"st": ("inner", "left"), "tt": ("inner", "left", "outer"), "sg": ("inner", "left")}
RETENTIONS = (0, 1, 5, 20, 1000)
HISTORIC = ("versioned", "grace", "cache-versioned")  # groups with a versioned table
# Many versions of few keys, often at equal timestamps.
DENSE = Family("aaab", ("L1", "L2", "L3", None), "aaab", ("R1", "R2", None, None))
NEAR = (0, 0, 0, 1, 2, 4)
COARSE = 400  # at this step the history store's segments of 2 s and more come into play

# Which options a group of cases draws: cases per type recorded for it, by profile.
GROUPS: dict[tuple[str, str], dict[str, int]] = {
    ("st", "plain"): {"kafka-4": 80, "0.10.2": 100, "0.10.0": 100},
    ("st", "versioned"): {"kafka-4": 120},
    ("st", "grace"): {"kafka-4": 120},
    ("tt", "plain"): {"kafka-4": 60, "0.10.2": 60, "0.10.0": 100},
    ("tt", "materialized"): {"kafka-4": 30, "0.10.2": 10},
    ("tt", "versioned"): {"kafka-4": 100},
    ("tt", "cache"): {"kafka-4": 60, "0.10.2": 20},
    ("tt", "cache-materialized"): {"kafka-4": 60, "0.10.2": 20},
    ("tt", "cache-versioned"): {"kafka-4": 40},
    ("sg", "key"): {"kafka-4": 150, "0.10.2": 50},
    ("sg", "fk"): {"kafka-4": 150, "0.10.2": 50},
}


def cases(seed: int = 0, count: int | None = None) -> list[dict[str, Any]]:
    """The cases to record; with `count`, as many of each group, type and profile."""
    return [
        case(seed, family, group, semantics, how, i)
        for (family, group), per_profile in GROUPS.items()
        for semantics, n in per_profile.items()
        for how in TYPES[family]
        if (family, semantics, how) != ("st", "0.10.0", "inner")  # not offered then
        for i in range(n if count is None else count)
    ]


def case(seed: int, family: str, group: str, semantics: str, how: str, i: int) -> dict[str, Any]:
    name = f"{family}.{semantics}.{how}.{group}.{i:04d}"
    rng = random.Random(f"{seed} {name}")
    scale = COARSE if group in HISTORIC and rng.random() < 0.3 else 1
    head = {"name": name, "join": JOINS[family], "type": how, "semantics": semantics}
    dense = group in HISTORIC and rng.random() < 0.5
    lines = list(drawn(rng, DENSE if dense else FAMILY[group if family == "sg" else family], scale, dense))
    # One record without key ends the whole case there, so most have none.
    if semantics == "0.10.0":
        fatal = ("right",) if family == "st" else ("left", "right")
    else:
        fatal = ("left",) if (group, how) == ("grace", "left") else ()
    if rng.random() < 0.95:
        for line in lines:
            line["key"] = line["key"] or (rng.choice("abc") if line["side"] in fatal else None)
    return head | dict(options(rng, family, group, scale)) | {"input": lines}


def drawn(rng: random.Random, f: Family, scale: int, dense: bool) -> Iterator[dict[str, Any]]:
    draws: list[Draw] = []
    for _ in range(rng.randint(20, 30)):
        left = rng.random() < 0.5
        keys, values = (f.left_keys, f.left_values) if left else (f.right_keys, f.right_values)
        step, delay = (rng.choice(choice) * scale for choice in ((NEAR, NEAR) if dense else (STEPS, DELAYS)))
        draws.append(("left" if left else "right", rng.choice(keys), rng.choice(values), step, delay))
    for side, key, value, timestamp in timed(draws):
        yield {"side": side, "key": key, "value": value, "ts": timestamp}


def options(rng: random.Random, family: str, group: str, scale: int) -> Iterator[tuple[str, Any]]:
    if group == "grace":
        retention = rng.choice(RETENTIONS) * scale
        yield "right_versioned_ms", retention
        yield "table_grace_ms", rng.choice([g * scale for g in (0, 1, 3, 5, 12, 20) if g * scale <= retention])
    if group == "versioned" or group == "cache-versioned":
        for side in ["right"] if family == "st" else rng.choice((["left"], ["right"], ["left", "right"])):
            yield f"{side}_versioned_ms", rng.choice(RETENTIONS) * scale
    if "materialized" in group or (group == "cache-versioned" and rng.random() < 0.5):
        yield "materialized", True
    if "cache" in group:
        yield "cache", True
        yield "commit_every", rng.choice((1, 2, 3, 5, 100))
    if group in ("key", "fk"):
        yield "selector", group


def main(to: str, *arguments: str) -> None:
    if to == "record":
        answered = {a["name"]: a for file in arguments for a in json.loads(Path(file).read_text("utf-8"))}
        write(GOLDEN, (recorded(case, answered[case["name"]]) for case in cases()))
    else:
        asked = [case for case in cases() if VERSIONS[case["semantics"]] == arguments[0]]
        Path(to).write_text(json.dumps(asked), "utf-8")


def recorded(case: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    said = {"error": answer["error"]} if "error" in answer else {"output": answer["output"]}
    return {**case, **said}


def write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """The same bytes each time: no time stamp, and no space."""
    data = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(gzip.compress(data.encode("utf-8"), 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
