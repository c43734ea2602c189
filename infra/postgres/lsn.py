"""Positions in PostgreSQL's log as one number; PostgreSQL prints them as two hexadecimal numbers."""

from __future__ import annotations


def lsn_text(lsn: int) -> str:
    """A position as printed by PostgreSQL.

    Examples
    --------
    >>> lsn_text(22186192)
    '0/15288D0'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A position as a number.

    Examples
    --------
    >>> lsn_number("0/15288D0")
    22186192
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
