"""Stream ⋈ stream in a window: what the documents print."""

from tests.golden.printed import Printed

TABLES = (
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: printed, or following from the
    # printed rule.
    Printed(
        "s000.ss.v31",
        "stream-stream",
        ("3.1",),
        """
        step  side   key  record  ts  | inner              | left               | outer
        1     left   k    null    1   |                    |                    |
        2     right  k    null    2   |                    |                    |
        3     left   k    A       3   |                    |                    |
        4     right  k    a       4   | A-a                | A-a                | A-a
        5     left   k    B       5   | B-a                | B-a                | B-a
        6     right  k    b       6   | A-b, B-b           | A-b, B-b           | A-b, B-b
        7     left   k    null    7   |                    |                    |
        8     right  k    null    8   |                    |                    |
        9     left   k    C       9   | C-a, C-b           | C-a, C-b           | C-a, C-b
        10    right  k    c       10  | A-c, B-c, C-c      | A-c, B-c, C-c      | A-c, B-c, C-c
        11    right  k    null    11  |                    |                    |
        12    left   k    null    12  |                    |                    |
        13    right  k    null    13  |                    |                    |
        14    right  k    d       14  | A-d, B-d, C-d      | A-d, B-d, C-d      | A-d, B-d, C-d
        15    left   k    D       15  | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d
        16    left   k    E       40  |                    |                    |
        17    left   k    F       60  |                    | E-null             | E-null
        18    right  k    f       80  |                    | F-null             | F-null
        19    left   k    G       100 |                    |                    | null-f
        """,
        window=(15, 15, 5),
    ),
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: printed, or following from the
    # printed rule.
    Printed(
        "s000.ss.v31.expiry_seed_reading",
        "stream-stream",
        ("3.1",),
        """
        step  side  key    record  ts | left
        1     left  k      E       40 |
        2     left  other  X       59 |
        3     left  other  Y       60 | k: E-null
        4     left  other  Z       61 |
        """,
        window=(15, 15, 5),
    ),
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: a row leaves one ms later than
    # printed.
    Printed(
        "s000.ss.v31.expiry_kafka_code_reading",
        "stream-stream",
        ("kafka-4",),
        """
        step  side  key    record  ts | left
        1     left  k      E       40 |
        2     left  other  X       59 |
        3     left  other  Y       60 |
        4     left  other  Z       61 | k: E-null
        """,
        window=(15, 15, 5),
    ),
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: printed, or following from the
    # printed rule.
    Printed(
        "s000.ss.v31.no_grace",
        "stream-stream",
        ("3.1",),
        """
        step  side   key  record  ts | left
        1     left   k    E       40 |
        2     right  k    e       56 | E-null
        """,
        window=(15, 15, 0),
    ),
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: the deprecated window keeps
    # its eager rows.
    Printed(
        "s000.ss.v31.legacy_window_api",
        "stream-stream",
        ("0.10.2",),
        """
        step  side   key  record  ts | left
        1     left   k    A       3  | A-null
        2     right  k    a       4  | A-a
        """,
        window=(15, 15, 5),
    ),
    # Improved Left/Outer Stream-Stream Join (v3.1.x and newer) > KStream-KStream Join: printed, or following from the
    # printed rule.
    Printed(
        "s000.ss.v31.window_edge",
        "stream-stream",
        ("3.1",),
        """
        step  side   key  record  ts  | inner
        1     left   k    P       100 |
        2     right  k    p       115 | P-p
        3     right  k    q       116 |
        4     left   k    Q       130 | Q-p, Q-q
        5     left   k    R       131 | R-q
        """,
        window=(15, 15, 5),
    ),
    # New Join Semantics (v0.10.2.x and newer) > KStream-KStream Join: printed.
    Printed(
        "s000.ss.v0102",
        "stream-stream",
        ("0.10.2",),
        """
        step  side   key  record  ts | inner              | left               | outer
        1     left   k    null    1  |                    |                    |
        2     right  k    null    2  |                    |                    |
        3     left   k    A       3  |                    | A-null             | A-null
        4     right  k    a       4  | A-a                | A-a                | A-a
        5     left   k    B       5  | B-a                | B-a                | B-a
        6     right  k    b       6  | A-b, B-b           | A-b, B-b           | A-b, B-b
        7     left   k    null    7  |                    |                    |
        8     right  k    null    8  |                    |                    |
        9     left   k    C       9  | C-a, C-b           | C-a, C-b           | C-a, C-b
        10    right  k    c       10 | A-c, B-c, C-c      | A-c, B-c, C-c      | A-c, B-c, C-c
        11    right  k    null    11 |                    |                    |
        12    left   k    null    12 |                    |                    |
        13    right  k    null    13 |                    |                    |
        14    right  k    d       14 | A-d, B-d, C-d      | A-d, B-d, C-d      | A-d, B-d, C-d
        15    left   k    D       15 | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d
        """,
        window=(1000, 1000, 0),
    ),
    # Old Join Semantics (v0.10.0.x and v0.10.1.x) > KStream-KStream Join: printed.
    Printed(
        "s000.ss.v0100",
        "stream-stream",
        ("0.10.0",),
        """
        step  side   key  record  ts | inner                  | left                   | outer
        1     left   k    null    1  |                        | null-null              | null-null
        2     right  k    null    2  |                        |                        | null-null
        3     left   k    A       3  |                        | A-null                 | A-null
        4     right  k    a       4  | A-a                    |                        | A-a
        5     left   k    B       5  | B-a                    | B-a                    | B-a
        6     right  k    b       6  | A-b, B-b               |                        | A-b, B-b
        7     left   k    null    7  | null-a, null-b         | null-a, null-b         | null-a, null-b
        8     right  k    null    8  | A-null, B-null         |                        | A-null, B-null
        9     left   k    C       9  | C-a, C-b               | C-a, C-b               | C-a, C-b
        10    right  k    c       10 | A-c, B-c, C-c          |                        | A-c, B-c, C-c
        11    right  k    null    11 | A-null, B-null, C-null |                        | A-null, B-null, C-null
        12    left   k    null    12 | null-a, null-b, null-c | null-a, null-b, null-c | null-a, null-b, null-c
        13    right  k    null    13 | A-null, B-null, C-null |                        | A-null, B-null, C-null
        14    right  k    d       14 | A-d, B-d, C-d          |                        | A-d, B-d, C-d
        15    left   k    D       15 | D-a, D-b, D-c, D-d     | D-a, D-b, D-c, D-d     | D-a, D-b, D-c, D-d
        """,
        window=(1000, 1000, 0),
    ),
    # Proposed Changes > KStream-KStream (result KStream): before and after are those of a right record around a left
    # one, as released; the tables that documents print are symmetric and leave the choice open.
    Printed(
        "s002.window.asymmetric_joinwindows_doc",
        "stream-stream",
        ("3.1", "kafka-4", "0.10.2"),
        """
        step  side   key  record  ts  | inner
        1     left   k2   L89     89  |
        2     left   k1   L90     90  |
        3     right  k1   R       100 |
        4     right  k2   R       100 |
        5     right  k3   R       100 |
        6     right  k4   R       100 |
        7     right  k5   R       100 |
        8     left   k5   L100    100 | L100-R
        9     left   k3   L105    105 | L105-R
        10    left   k4   L106    106 | L106-R
        """,
        window=(10, 5, 0),
    ),
    # Proposed Changes > KStream-KStream (result KStream): printed.
    Printed(
        "s002.ss.current",
        "stream-stream",
        ("0.10.0",),
        """
        step  side   key  record  ts | inner                  | left                   | outer
        1     left   k    null    1  |                        | null-null              | null-null
        2     right  k    null    2  |                        |                        | null-null
        3     left   k    A       3  |                        | A-null                 | A-null
        4     right  k    a       4  | A-a                    |                        | A-a
        5     left   k    B       5  | B-a                    | B-a                    | B-a
        6     right  k    b       6  | A-b, B-b               |                        | A-b, B-b
        7     left   k    null    7  | null-a, null-b         | null-a, null-b         | null-a, null-b
        8     right  k    null    8  | A-null, B-null         |                        | A-null, B-null
        9     left   k    C       9  | C-a, C-b               | C-a, C-b               | C-a, C-b
        10    right  k    c       10 | A-c, B-c, C-c          |                        | A-c, B-c, C-c
        11    right  k    null    11 | A-null, B-null, C-null |                        | A-null, B-null, C-null
        12    left   k    null    12 | null-a, null-b, null-c | null-a, null-b, null-c | null-a, null-b, null-c
        13    right  k    null    13 | A-null, B-null, C-null |                        | A-null, B-null, C-null
        14    right  k    d       14 | A-d, B-d, C-d          |                        | A-d, B-d, C-d
        15    left   k    D       15 | D-a, D-b, D-c, D-d     | D-a, D-b, D-c, D-d     | D-a, D-b, D-c, D-d
        """,
        window=(1000, 1000, 0),
    ),
    # Suggested semantics > KStream-KStream (result KStream): printed.
    Printed(
        "s002.ss.suggested",
        "stream-stream",
        ("0.10.2",),
        """
        step  side   key  record  ts | inner              | left               | outer
        1     left   k    null    1  |                    |                    |
        2     right  k    null    2  |                    |                    |
        3     left   k    A       3  |                    | A-null             | A-null
        4     right  k    a       4  | A-a                | A-a                | A-a
        5     left   k    B       5  | B-a                | B-a                | B-a
        6     right  k    b       6  | A-b, B-b           | A-b, B-b           | A-b, B-b
        7     left   k    null    7  |                    |                    |
        8     right  k    null    8  |                    |                    |
        9     left   k    C       9  | C-a, C-b           | C-a, C-b           | C-a, C-b
        10    right  k    c       10 | A-c, B-c, C-c      | A-c, B-c, C-c      | A-c, B-c, C-c
        11    right  k    null    11 |                    |                    |
        12    left   k    null    12 |                    |                    |
        13    right  k    null    13 |                    |                    |
        14    right  k    d       14 | A-d, B-d, C-d      | A-d, B-d, C-d      | A-d, B-d, C-d
        15    left   k    D       15 | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d | D-a, D-b, D-c, D-d
        """,
        window=(1000, 1000, 0),
    ),
)
