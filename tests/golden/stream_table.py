"""Stream ⋈ table: what the documents print."""

from tests.golden.printed import Printed

TABLES = (
    # New Join Semantics (v0.10.2.x and newer) > KStream-KTable Join: printed; nothing in later releases changes it.
    Printed(
        "s000.st.v0102",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner | left
        1     left   k    null    1  |       |
        2     right  k    null    2  |       |
        3     left   k    A       3  |       | A-null
        4     right  k    a       4  |       |
        5     left   k    B       5  | B-a   | B-a
        6     right  k    b       6  |       |
        7     left   k    null    7  |       |
        8     right  k    null    8  |       |
        9     left   k    C       9  |       | C-null
        10    right  k    c       10 |       |
        11    right  k    null    11 |       |
        12    left   k    null    12 |       |
        13    right  k    null    13 |       |
        14    right  k    d       14 |       |
        15    left   k    D       15 | D-d   | D-d
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: look-ups see the present state.
    Printed(
        "s000.sync.st.in_order",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | left
        1     right  k    a       4  |
        2     left   k    B       5  | B-a
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: look-ups see the present state.
    Printed(
        "s000.sync.st.table_late",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | left
        1     left   k    B       5  | B-null
        2     right  k    a       4  |
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: look-ups see the present state.
    Printed(
        "s000.sync.st.table_late_inner",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner
        1     left   k    B       5  |
        2     right  k    a       4  |
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: look-ups see the present state.
    Printed(
        "s000.sync.st.table_early_current_state",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner
        1     right  k    a       4  |
        2     right  k    b       6  |
        3     left   k    B       5  | B-b
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: the temporal reading: a versioned table.
    Printed(
        "s000.sync.st.table_early_sql_reading",
        "stream-table",
        ("3.1", "kafka-4"),
        """
        step  side   key  record  ts | inner
        1     right  k    a       4  |
        2     right  k    b       6  |
        3     left   k    B       5  | B-a
        """,
        options={"right_versioned_ms": 1000},
    ),
    # Old Join Semantics (v0.10.0.x and v0.10.1.x) > KStream-KTable Join: printed.
    Printed(
        "s000.st.v0100",
        "stream-table",
        ("0.10.0",),
        """
        step  side   key  record  ts | left
        1     left   k    null    1  | null-null
        2     right  k    null    2  |
        3     left   k    A       3  | A-null
        4     right  k    a       4  |
        5     left   k    B       5  | B-a
        6     right  k    b       6  |
        7     left   k    null    7  | null-b
        8     right  k    null    8  |
        9     left   k    C       9  | C-null
        10    right  k    c       10 |
        11    right  k    null    11 |
        12    left   k    null    12 | null-null
        13    right  k    null    13 |
        14    right  k    d       14 |
        15    left   k    D       15 | D-d
        """,
    ),
    # Proposed Changes > KStream-KTable (result KStream): printed.
    Printed(
        "s002.st.current",
        "stream-table",
        ("0.10.0",),
        """
        step  side   key  record  ts | left
        1     left   k    null    1  | null-null
        2     right  k    null    2  |
        3     left   k    A       3  | A-null
        4     right  k    a       4  |
        5     left   k    B       5  | B-a
        6     right  k    b       6  |
        7     left   k    null    7  | null-b
        8     right  k    null    8  |
        9     left   k    C       9  | C-null
        10    right  k    c       10 |
        11    right  k    null    11 |
        12    left   k    null    12 | null-null
        13    right  k    null    13 |
        14    right  k    d       14 |
        15    left   k    D       15 | D-d
        """,
    ),
    # Suggested semantics > KStream-KTable (result KStream): printed; nothing in later releases changes it.
    Printed(
        "s002.st.suggested",
        "stream-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner | left
        1     left   k    null    1  |       |
        2     right  k    null    2  |       |
        3     left   k    A       3  |       | A-null
        4     right  k    a       4  |       |
        5     left   k    B       5  | B-a   | B-a
        6     right  k    b       6  |       |
        7     left   k    null    7  |       |
        8     right  k    null    8  |       |
        9     left   k    C       9  |       | C-null
        10    right  k    c       10 |       |
        11    right  k    null    11 |       |
        12    left   k    null    12 |       |
        13    right  k    null    13 |       |
        14    right  k    d       14 |       |
        15    left   k    D       15 | D-d   | D-d
        """,
    ),
)
