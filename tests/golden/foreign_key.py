"""Table ⋈ table on a foreign key: what the documents print."""

from tests.golden.printed import Printed

TABLES = (
    # KTable-KTable Foreign-Key Join (v2.4.x and newer): printed; step 5 read as a tombstone, as KIP-213's text has
    # it.
    Printed(
        "s000.fk",
        "fk-table-table",
        ("3.1", "kafka-4"),
        """
        step  side   key  record  ts | inner      | left
        0     right  1    foo     0  |            |
        1     left   k    1|      1  | 1|-foo     | 1|-foo
        2     left   k    2|      2  | null       | 2|-null
        3     left   k    3|      3  | null       | 3|-null
        4     right  3    bar     4  | k: 3|-bar  | k: 3|-bar
        5     left   k    null    5  | null       | null
        6     left   k    1|      6  | 1|-foo     | 1|-foo
        7     left   q    10|     7  |            | 10|-null
        8     right  10   baz     8  | q: 10|-baz | q: 10|-baz
        """,
    ),
    # More Detailed Implementation Details > Tombstones & Foreign Key Changes: printed; the same steps as seed 000.
    Printed(
        "s001.fk",
        "fk-table-table",
        ("3.1", "kafka-4"),
        """
        step  side   key  record  ts | inner      | left
        0     right  1    foo     0  |            |
        1     left   k    1|      1  | 1|-foo     | 1|-foo
        2     left   k    2|      2  | null       | 2|-null
        3     left   k    3|      3  | null       | 3|-null
        4     right  3    bar     4  | k: 3|-bar  | k: 3|-bar
        5     left   k    null    5  | null       | null
        6     left   k    1|      6  | 1|-foo     | 1|-foo
        7     left   q    10|     7  |            | 10|-null
        8     right  10   baz     8  | q: 10|-baz | q: 10|-baz
        """,
    ),
)
