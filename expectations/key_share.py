"""Shares of the keys: rows of a large epoch are derived once more for one part of them, those of the next for the next.

To derive the rows of a backlog once more takes half as long as to compute and judge them. Rules that do it judge, of an
epoch of many records, the keys of one part of eight, by a hash; all other rules judge every row:

    epoch 7, 20,000 records        every_pair_in_window: all keys
    epoch 8, 2,000,000 records     every_pair_in_window: part 1 of 8 of the keys
    epoch 9, 2,000,000 records     every_pair_in_window: part 2 of 8 of the keys

Such rules block nothing. Verdicts name the part wherever they are shown. ``rivermeet verify`` and checks that are run
alone judge all keys. Held by ``tests/assets/quality/test_key_share_rules.py``; where it is shown, by
``tests/assets/quality/test_key_share.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

PARTS = 8


@dataclass(frozen=True)
class KeyShare:
    """One of `PARTS` parts of all keys; ``part`` counts from 0."""

    part: int

    def has(self, key: str) -> str:
        """Condition in SQL: whether a key, which may be null, is of this part."""
        return f"pmod(xxhash64({key}), {PARTS}) = {self.part}"

    def __str__(self) -> str:
        return f"part {self.part + 1} of {PARTS} of the keys"


def key_share(epoch: int, records: int, all_up_to: int) -> KeyShare | None:
    """The part that is judged of an epoch; None, all keys, where it has at most ``all_up_to`` records."""
    return None if records <= all_up_to else KeyShare(epoch % PARTS)


def of_share(relation: str, share: KeyShare | None, key: str = "key") -> str:
    """Relation in SQL without the rows whose key is of another part."""
    return relation if share is None else f"(SELECT * FROM {relation} WHERE {share.has(key)})"
