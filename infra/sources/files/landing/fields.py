"""Fields of CSV lines, a block of lines at a time.

    of a header with 3 fields    wanted   r0      r1     malformed   hard
    a,1,10                       0, 1     a       1
    "b, c",2,20                           b, c    2
    d,4                                                  the line does not have the 3 fields of the header
    "e"x,5,50                                                        true

Lines without a quote are split at the delimiter, all at once; those with quotes are read by Python's ``csv`` in strict
mode. A line that it refuses is ``hard``: the engine reads it with its own parser (``infra/sources/files/csv.py``). Held
by ``tests/infra/sources/landing/test_fields.py`` and ``tests/infra/sources/test_both_readers.py``.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Fields(NamedTuple):
    """Columns of lines: each wanted field, why a line has none, and whether the engine has to parse it."""

    wanted: list[pa.Array]
    malformed: pa.Array
    hard: pa.Array


def not_so_wide(width: int) -> str:
    """The reason for a line with another number of fields than the header."""
    return f"the line does not have the {width} fields of the header"


NOT_UTF8_LINE = "the line is not UTF-8 text"


def fields_of(texts: pa.Array, delimiter: str, width: int, wanted: Sequence[int], null: str | None) -> Fields:
    """Fields of lines that close every quoted field, except stray quotes.

    ``wanted`` are their places among the ``width`` fields of the header; ``null`` is a text that means null in addition
    to the empty one.
    """
    special = pc.or_(pc.match_substring(texts, '"'), pc.match_substring(texts, "\0"))
    plain = texts.filter(pc.invert(special))
    lists = pc.split_pattern(plain, delimiter)
    wide = pc.equal(pc.list_value_length(lists), width)
    sound = lists if pc.all(wide).as_py() else lists.filter(wide)
    flat = sound.flatten()
    columns = [flat.take(pa.array(np.arange(at, len(flat), width))) for at in wanted]
    malformed, hard = pa.nulls(len(texts), pa.string()), pa.repeat(False, len(texts))
    if len(sound) < len(texts):
        read, states = _read_quoted(texts.filter(special).to_pylist(), delimiter, width, wanted)
        state = np.empty(len(texts), np.int8)
        is_special = special.to_numpy(zero_copy_only=False)
        state[~is_special] = np.where(wide.to_numpy(zero_copy_only=False), _SOUND, _WIDTH)
        state[is_special] = states
        # The index of each line's fields: plain lines come first, then those that were read one by one.
        order = np.concatenate([np.flatnonzero((state == _SOUND) & of) for of in (~is_special, is_special)])
        place = np.full(len(texts), -1, np.int64)
        place[order] = np.arange(len(order))
        at = pa.array(place, mask=place < 0)
        columns = [
            pa.concat_arrays([column, pa.array([row[n] for row in read], pa.string())]).take(at)
            for n, column in enumerate(columns)
        ]
        malformed = pc.if_else(pa.array(state == _WIDTH), not_so_wide(width), malformed)
        hard = pa.array(state == _HARD)
        broken = pc.match_substring(texts, "\ufffd")
        malformed, hard = pc.if_else(broken, NOT_UTF8_LINE, malformed), pc.and_not(hard, broken)
    elif pc.any(broken := pc.match_substring(texts, "\ufffd")).as_py():
        malformed = pc.if_else(broken, NOT_UTF8_LINE, malformed)
    return Fields([_with_nulls(column, null) for column in columns], malformed, hard)


_SOUND, _WIDTH, _HARD = range(3)


def _read_quoted(
    texts: Sequence[str], delimiter: str, width: int, wanted: Sequence[int]
) -> tuple[list[list[str]], list[int]]:
    """Wanted fields of the valid lines with quotes, and the kind of each line."""
    rows: list[list[str]] = []
    states: list[int] = []
    for text in texts:
        try:
            found = None if "\0" in text else next(csv.reader((text,), delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration):
            found = None
        states.append(_HARD if found is None else _SOUND if len(found) == width else _WIDTH)
        if found is not None and len(found) == width:
            rows.append([found[at] for at in wanted])
    return rows, states


def _with_nulls(column: pa.Array, null: str | None) -> pa.Array:
    nothing = pc.is_in(column, pa.array([""] if null is None else ["", null]))
    return pc.if_else(nothing, pa.scalar(None, pa.string()), column)
