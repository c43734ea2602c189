"""Type widening: a wider type contains every value of the narrower one.

    INT → BIGINT              wider: files written as INT are read as BIGINT
    FLOAT → DOUBLE            wider
    DECIMAL(10,2) → (12,3)    wider: no digit is lost before or after the point
    DECIMAL(10,2) → (10,3)    not: 12345678.90 has eight digits before the point
    BIGINT → DOUBLE           not: a DOUBLE holds whole numbers up to 2^53

These are the changes that Delta makes to a table's schema without rewriting its files.

Source: Delta protocol, Type Widening. Held by ``tests/infra/epochs/test_declaration.py`` and, against Delta itself,
``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

import re

_SYNONYMS = {
    **{"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT"},
    **{"REAL": "FLOAT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"},
}
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 10, "SMALLINT": 10, "INT": 10, "BIGINT": 20}
"""Digits before the point that Delta requires of a DECIMAL to which a whole number is widened."""
_OTHERS = {("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP_NTZ"), *((kind, "DOUBLE") for kind in _WHOLE[:3])}
_NUMBERED = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")


def normal(kind: str) -> str:
    """A Spark type's name in normal form: upper case, no blanks, one name per type."""
    text = re.sub(r"\s+", "", kind).upper()
    found = _NUMBERED.fullmatch(text)
    if found is None:
        return text
    name = _SYNONYMS.get(found[1], found[1])
    # DECIMAL alone is DECIMAL(10,0), and DECIMAL(12) is DECIMAL(12,0).
    return f"DECIMAL({found[2] or 10},{found[3] or 0})" if name == "DECIMAL" else text.replace(found[1], name, 1)


def widens(then: str, now: str) -> bool:
    """Whether type ``now`` contains every value of ``then``, and is another type."""
    old, new = normal(then), normal(now)
    if old in _WHOLE and new in _WHOLE:
        return _WHOLE.index(old) < _WHOLE.index(new)
    decimal = _decimal(new)
    if decimal is None:
        return (old, new) in _OTHERS
    before = (_DIGITS[old], 0) if old in _DIGITS else _decimal(old)
    return old != new and before is not None and before[0] <= decimal[0] and before[1] <= decimal[1]


def _decimal(kind: str) -> tuple[int, int] | None:
    """Digits of a DECIMAL before and after its point."""
    found = _NUMBERED.fullmatch(kind)
    if found is None or found[1] != "DECIMAL":
        return None
    return int(found[2]) - int(found[3]), int(found[3])
