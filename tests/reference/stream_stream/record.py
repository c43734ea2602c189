"""Cases of stream-stream joins, and the recording of what Kafka Streams answers to them.

    python -m tests.reference.stream_stream.record ORACLE_DIR/run

writes tests/golden/oracle_stream_stream.jsonl.gz, a case a line in the oracle's format with
`semantics` (the profile) and `output` added. The same seed gives the same file.

    "kafka-4" on 4.3.1    "0.10.2" on 3.0.2, whose windows are always eager    "0.10.0" on 0.10.1.1
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rivermeet.joins.stream_stream.reference.profile_0_10_0 import SEGMENT
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import segment_of
from tests.reference.histories import FAMILIES, Draw, timed
from tests.reference.recording import record

RECORDED = Path(__file__).parents[2] / "golden" / "oracle_stream_stream.jsonl.gz"
VERSIONS = {"kafka-4": "4.3.1", "0.10.2": "3.0.2", "0.10.0": "0.10.1.1"}

# (semantics, name, type, options, how many)
GROUPS: list[tuple[str, str, str, dict[str, Any], int]] = [
    *(("kafka-4", how, how, {}, 300) for how in ("inner", "left", "outer")),
    *((profile, how, how, {}, 150) for profile in ("0.10.2", "0.10.0") for how in ("inner", "left", "outer")),
    *(("kafka-4", f"eager.{how}", how, {"eager": True}, 50) for how in ("inner", "left", "outer")),
    ("kafka-4", "self.none", "inner", {"self": True, "optimize": "none"}, 60),
    ("kafka-4", "self.all", "inner", {"self": True, "optimize": "all"}, 60),
]

# (scale of the timestamps in ms, before, after, grace to choose from): 0.10.0's segments take twelve
# hours and all later ones at least a minute, so that only a wide scale shows them go.
Scale = tuple[int, Sequence[int], Sequence[int], Sequence[int]]
SMALL: Scale = (1, (0, 1, 3, 5, 10, 12, -3), (0, 1, 3, 5, 10, 12, -3), (0, 1, 5, 30, 1000))
WIDE: list[Scale] = [
    (4_000, (0, 10, 8_000, 30_000, -4_000), (0, 10, 12_000, 45_000, -4_000), (0, 1_000, 100_000)),
    (20_000, (0, 30_000, 60_000, 200_000), (0, 45_000, 200_000), (0, 30_000, 400_000)),
]
SCALES: dict[str, list[Scale]] = {
    "kafka-4": [SMALL, SMALL, *WIDE],
    "0.10.2": [SMALL, *WIDE],
    # The oracle cannot build a negative `before` there.
    "0.10.0": [
        (1, (0, 1, 3, 5, 10, 12), (0, 1, 3, 5, 10, 12, -3), (0,)),
        (4_000, (0, 8_000, 30_000), (0, 12_000, 45_000, -4_000), (0,)),
        (6_000_000, (0, 7_200_000, 36_000_000), (0, 36_000_000, 43_200_000), (0,)),
    ],
}
FIRST_TIMES = (0, 0, 0, 59_990, 119_990, 43_199_990)  # zero, and just before a segment ends


def cases(seed: int = 0, times: int = 1) -> list[dict[str, Any]]:
    """All cases without answers; another seed gives others, `times` more of them."""
    return [
        {
            "name": f"ss.{semantics}.{name}.{i:04}",
            "join": "stream-stream",
            "type": how,
            "semantics": semantics,
            **options,
            **drawn(random.Random(f"{seed} {semantics} {name} {i}"), semantics, "self" in options),
        }
        for semantics, name, how, options, n in GROUPS
        for i in range(n * times)
    ]


def drawn(rng: random.Random, semantics: str, one_input: bool) -> dict[str, Any]:
    """A window and a history to its scale; a third of the histories is in order, all times distinct."""
    scale, befores, afters, graces = rng.choice(SCALES[semantics])
    before, after = rng.choice([(b, a) for b in befores for a in afters if b + a >= 0])
    window = {"before_ms": before, "after_ms": after, "grace_ms": rng.choice(graces)}
    in_order = rng.random() < 1 / 3
    lines = timed(draws(rng, in_order, one_input))
    if rng.random() < 1 / 3:
        times = edges(rng, semantics, window, len(lines), in_order)
    else:
        first = rng.choice(FIRST_TIMES)
        # Off the scale's grid too, by less than a step, so that what was in order stays so.
        times = [first + ts * scale + rng.choice((0, 0, 0, rng.randrange(scale))) for _, _, _, ts in lines]
    # A far record closes every window that is still open.
    end = [{"side": "left", "key": "end", "value": "end", "ts": 10**10}] if rng.random() < 1 / 3 else []
    history = [{"side": s, "key": k, "value": v, "ts": ts} for (s, k, v, _), ts in zip(lines, times, strict=True)]
    return {"window": window, "input": history + end}


def edges(rng: random.Random, semantics: str, window: dict[str, int], n: int, in_order: bool) -> list[int]:
    """Timestamps that lie on the ends of segments, windows and retentions, or one ms off."""
    before, after, grace = window.values()
    retention = before + after + grace
    spans = (0, before, after, grace, before + grace, after + grace, before + after, retention)
    segment, starts = (
        (SEGMENT, (0, 1, 2, 2, 3, 4)) if semantics == "0.10.0" else (segment_of(retention), (0, 1, 1, 1, 2))
    )
    times = [max(0, rng.choice(starts) * segment + rng.choice(spans) + rng.choice((-1, 0, 0, 1))) for _ in range(n)]
    if in_order:
        times.sort()
        for i in range(1, n):
            times[i] = max(times[i], times[i - 1] + 1)
    return times


def draws(rng: random.Random, in_order: bool, one_input: bool) -> list[Draw]:
    """Like `histories.random_histories`, but denser, and most values show which record they are of."""
    f = FAMILIES["stream_stream"]
    lines: list[Draw] = []
    for i in range(rng.randint(20, 29)):
        side = "left" if one_input or rng.random() < 0.5 else "right"
        key = rng.choice((*["a"] * 4, *(f.left_keys if side == "left" else f.right_keys)))
        value = rng.choice((*[f"{side[0].upper()}{i:02}"] * 8, "same", None))
        step, delay = rng.choice((0, 0, 0, 1, 1, 2, 3, 9)), rng.choice((0, 0, 0, 0, 1, 3, 8, 25))
        lines.append((side, key, value, step + in_order, 0 if in_order else delay))
    return lines


if __name__ == "__main__":
    record(RECORDED, sys.argv[1], cases(), VERSIONS)
