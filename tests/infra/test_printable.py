"""What would steer a terminal, or look like a line of ours, is escaped, and JSON stays JSON."""

from __future__ import annotations

import json

import pytest

from rivermeet.infra.printable import printable
from tests.reliability import handled


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"),
        ("a\r\nb\tc\0", "a\\u000d\\u000ab\\u0009c\\u0000"),
        ("\x7f\x9b2J\x85", "\\u007f\\u009b2J\\u0085"),
        ("\u202egpj.exe\u202c \u2066x\u2069 \u200e", "\\u202egpj.exe\\u202c \\u2066x\\u2069 \\u200e"),
        ("a\u200bb\u200d\ufeff\u00ad", "a\\u200bb\\u200d\\ufeff\\u00ad"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\ud800 \U000e0041", "\\ud800 \\udb40\\udc41"),
        ("Größe Ж 東京 🙂 \\n [bold]", "Größe Ж 東京 🙂 \\n [bold]"),
    ],
)
def test_what_steers_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    handled(
        "types",
        "control characters, marks of direction and characters without width in data",
        "escaped wherever a command prints data, as JSON writes them",
    )


def test_line_breaks_of_ours_are_kept_and_json_is_json() -> None:
    value = {"a\u2028": "x\x7f\u202ey\n\U000e0041"}
    text = json.dumps(value, ensure_ascii=False, indent=1)
    assert json.loads(printable(text, keep="\n")) == value
    assert printable(text, keep="\n").count("\n") == 2
