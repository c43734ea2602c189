"""The page of invariants says what is declared."""

from __future__ import annotations

from tests.invariant_page import PAGE, text


def test_the_page_is_what_is_declared() -> None:
    assert PAGE.read_text() == text(), "run `python -m tests.invariant_page`"
