"""One-to-many: a table with the rows that point to it: what the documents print."""

from tests.golden.printed import Printed

TABLES = (
    # Jan Filipiak's Original Proposal > Proposed Changes > Step by Step: printed; a proposal that was not released.
    Printed(
        "s001.one_to_many.steps",
        "one-to-many",
        ("3.1",),
        """
        step  side   key  record  ts | inner
        1     left   A0   A0…     1  |
        2     left   A1   A1…     2  |
        3     right  B0   A2|B0…  3  |
        4     right  B1   A2|B1…  4  |
        5     left   A2   A2…     5  | A2B0: A2…-A2|B0…, A2B1: A2…-A2|B1…
        6     right  B1   null    6  | A2B1: null
        7     right  B3   A0|B3…  7  | A0B3: A0…-A0|B3…
        8     left   A2   null    8  | A2B0: null
        """,
    ),
    # Jan Filipiak's Original Proposal > Missing reference to A: printed; a proposal that was not released.
    Printed(
        "s001.one_to_many.null_reference",
        "one-to-many",
        ("3.1",),
        """
        step  side   key  record  ts | inner
        1     left   A0   A0…     1  |
        2     right  B9   B9…     2  |
        """,
    ),
    # Jan Filipiak's Original Proposal > Algorithm: printed; a proposal that was not released.
    Printed(
        "s001.one_to_many.rereference",
        "one-to-many",
        ("3.1",),
        """
        step  side   key  record  ts | inner
        1     left   A0   A0…     1  |
        2     left   A1   A1…     2  |
        3     right  B0   A0|B0…  3  | A0B0: A0…-A0|B0…
        4     right  B0   A1|B0…  4  | A0B0: null, A1B0: A1…-A1|B0…
        """,
    ),
)
