"""merge: the records of two streams in one, each as it is, in processing order; the trigger names the side.

    left  a {n: 1} @1      a {n: 1}
    right b {n: 2} @1      b {n: 2}      a tie goes to the left
    left  c {n: 3} @9      c {n: 3}
    right - NULL   @9      - NULL

Source: released Kafka Streams 4.x, ``KStream.merge``, which defines no order between its inputs; ours is that of
``joins/order.py``. Held by ``tests/joins/stateless/test_stateless.py``.
"""

from __future__ import annotations

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.stateless.one_input import build_rows, read_nothing
from rivermeet.pipelines import Merge

READS_ONCE = True
state = read_nothing


def compute(operation: Merge, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    return EpochFrames(build_rows(inputs.left, "left").unionByName(build_rows(inputs.right, "right")))
