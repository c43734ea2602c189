"""Table ⋈ table on the key: what the documents print."""

from tests.golden.printed import Printed

TABLES = (
    # New Join Semantics (v0.10.2.x and newer) > KTable-KTable Join: printed; nothing in later releases changes it.
    Printed(
        "s000.tt.v0102",
        "table-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner | left   | outer
        1     left   k    null    1  |       |        |
        2     right  k    null    2  |       |        |
        3     left   k    A       3  |       | A-null | A-null
        4     right  k    a       4  | A-a   | A-a    | A-a
        5     left   k    B       5  | B-a   | B-a    | B-a
        6     right  k    b       6  | B-b   | B-b    | B-b
        7     left   k    null    7  | null  | null   | null-b
        8     right  k    null    8  |       |        | null
        9     left   k    C       9  |       | C-null | C-null
        10    right  k    c       10 | C-c   | C-c    | C-c
        11    right  k    null    11 | null  | C-null | C-null
        12    left   k    null    12 |       | null   | null
        13    right  k    null    13 |       |        |
        14    right  k    d       14 |       |        | null-d
        15    left   k    D       15 | D-d   | D-d    | D-d
        16    right  k    d       17 | D-d   | D-d    | D-d
        """,
    ),
    # New Join Semantics (v0.10.2.x and newer) > KTable-KTable Join > KTable Cache: the cache is on the result;
    # Kafka's also caches the inputs.
    Printed(
        "s000.tt.cache",
        "table-table",
        ("3.1",),
        """
        step  side   key  record  ts | inner | left | outer
        1     left   k    null    1  |       |      |
        2     right  k    null    2  |       |      |
        3     left   k    A       3  |       |      |
        4     right  k    a       4  |       |      |
        5     left   k    B       5  |       |      |
        6     right  k    b       6  | B-b   | B-b  | B-b
        7     left   k    null    7  |       |      |
        8     right  k    null    8  |       |      |
        9     left   k    C       9  |       |      |
        10    right  k    c       10 |       |      |
        11    right  k    null    11 |       |      |
        12    left   k    null    12 | null  | null | null
        13    right  k    null    13 |       |      |
        14    right  k    d       14 |       |      |
        15    left   k    D       15 |       |      |
        16    right  k    d       17 | D-d   | D-d  | D-d
        """,
        options={"cache": True, "commit_every": 6},
    ),
    # New Join Semantics (v0.10.2.x and newer) > timestamp synchronization: look-ups see the present state.
    Printed(
        "s000.sync.tt.late_update",
        "table-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner
        1     right  k    a       4  |
        2     left   k    B       5  | B-a
        3     left   k    A       3  | A-a
        """,
    ),
    # Old Join Semantics (v0.10.0.x and v0.10.1.x) > KTable-KTable Join: printed.
    Printed(
        "s000.tt.v0100",
        "table-table",
        ("0.10.0",),
        """
        step  side   key  record  ts | inner | left   | outer
        1     left   k    null    1  | null  | null   | null
        2     right  k    null    2  | null  | null   | null
        3     left   k    A       3  | null  | A-null | A-null
        4     right  k    a       4  | A-a   | A-a    | A-a
        5     left   k    B       5  | B-a   | B-a    | B-a
        6     right  k    b       6  | B-b   | B-b    | B-b
        7     left   k    null    7  | null  | null   | null-b
        8     right  k    null    8  | null  | null   | null
        9     left   k    C       9  | null  | C-null | C-null
        10    right  k    c       10 | C-c   | C-c    | C-c
        11    right  k    null    11 | null  | C-null | C-null
        12    left   k    null    12 | null  | null   | null
        13    right  k    null    13 | null  | null   | null
        14    right  k    d       14 | null  | null   | null-d
        15    left   k    D       15 | D-d   | D-d    | D-d
        16    right  k    d       17 | D-d   | D-d    | D-d
        """,
    ),
    # Proposed Changes > KTable-KTable (result KTable): printed as far as it is legible.
    Printed(
        "s002.tt.current_damaged",
        "table-table",
        ("0.10.0",),
        """
        step  side   key  record  ts | inner | left   | outer
        1     left   k    null    1  | null  | null   | null
        2     right  k    null    2  | null  | null   | null
        3     left   k    A       3  | null  | A-null | A-null
        4     right  k    a       4  | A-a   | A-a    | A-a
        5     left   k    B       5  | B-a   | B-a    | B-a
        6     right  k    b       6  | B-b   | B-b    | B-b
        7     left   k    null    7  | null  | null   | null-b
        8     right  k    null    8  | null  | null   | null
        9     left   k    C       9  | null  | C-null | C-null
        10    right  k    c       10 | C-c   | C-c    | C-c
        11    right  k    null    11 | null  | C-null | C-null
        """,
    ),
    # Suggested semantics > KTable-KTable (result KTable): printed.
    Printed(
        "s002.tt.current",
        "table-table",
        ("0.10.0",),
        """
        step  side   key  record  ts | inner | left   | outer
        1     left   k    null    1  | null  | null   | null
        2     right  k    null    2  | null  | null   | null
        3     left   k    A       3  | null  | A-null | A-null
        4     right  k    a       4  | A-a   | A-a    | A-a
        5     left   k    B       5  | B-a   | B-a    | B-a
        6     right  k    b       6  | B-b   | B-b    | B-b
        7     left   k    null    7  | null  | null   | null-b
        8     right  k    null    8  | null  | null   | null
        9     left   k    C       9  | null  | C-null | C-null
        10    right  k    c       10 | C-c   | C-c    | C-c
        11    right  k    null    11 | null  | C-null | C-null
        12    left   k    null    12 | null  | null   | null
        13    right  k    null    13 | null  | null   | null
        14    right  k    d       14 | null  | null   | null-d
        15    left   k    D       15 | D-d   | D-d    | D-d
        """,
    ),
    # Suggested semantics > KTable-KTable (result KTable): follows from the printed rules.
    Printed(
        "s002.tt.suggested",
        "table-table",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts | inner | left   | outer
        1     left   k    null    1  |       |        |
        2     right  k    null    2  |       |        |
        3     left   k    A       3  |       | A-null | A-null
        4     right  k    a       4  | A-a   | A-a    | A-a
        5     left   k    B       5  | B-a   | B-a    | B-a
        6     right  k    b       6  | B-b   | B-b    | B-b
        7     left   k    null    7  | null  | null   | null-b
        8     right  k    null    8  |       |        | null
        9     left   k    C       9  |       | C-null | C-null
        10    right  k    c       10 | C-c   | C-c    | C-c
        11    right  k    null    11 | null  | C-null | C-null
        12    left   k    null    12 |       | null   | null
        13    right  k    null    13 |       |        |
        14    right  k    d       14 |       |        | null-d
        15    left   k    D       15 | D-d   | D-d    | D-d
        """,
    ),
)
