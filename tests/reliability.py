"""The tables of docs/reliability.md, as tests saw them.

A test that has survived a fault says so by `survived`; one that holds what other systems got wrong, by `handled`. With
``RIVERMEET_RELIABILITY=LINES.jsonl`` each call appends a line to that file, and
``python -m tests.reliability LINES.jsonl`` makes the tables of them. Lines of one whole run belong together: a table
is recreated. That of faults stays as it is where a fault in it has no line, for those lines are not of a whole run;
``pytest $(git grep -l 'handled(' tests)`` is enough for the second one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- faults: python -m tests.reliability LINES.jsonl -->\n", "<!-- end of faults -->"
BLOCK = re.compile(f"({re.escape(_BEGIN)}).*?({re.escape(_END)})", re.DOTALL)
HANDLED = re.compile(
    r"(<!-- handled: python -m tests\.reliability LINES\.jsonl -->\n).*?(<!-- end of handled -->)", re.DOTALL
)
SETTING = "RIVERMEET_RELIABILITY"


def survived(fault: str, outcome: str, count: int = 1) -> None:
    """Note that a fault ended so, so many times; 0 is a count too (rows lost: 0)."""
    _note({"fault": fault, "outcome": outcome, "count": count})


def handled(where: str, what: str, outcome: str) -> None:
    """Note that an input or a trouble that other systems got wrong ends so.

    Parameters
    ----------
    where : str
        Files, PostgreSQL, Kafka, Debezium, Delta, types, runs or engine.
    what : str
        The input or the trouble, as a user would name it.
    outcome : str
        What becomes of it.
    """
    _note({"where": where, "what": what, "outcome": outcome})


def _note(line: dict[str, str | int]) -> None:
    target = os.environ.get(SETTING)
    if not target:
        return
    # One write of one line: several test processes may append to the file.
    with Path(target).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def table(lines: Iterable[str]) -> str:
    """Lines of `survived`, summed, in Markdown."""
    counts: Counter[tuple[str, str]] = Counter()
    for seen in _seen(lines):
        if "fault" in seen:
            counts[seen["fault"], seen["outcome"]] += seen["count"]
    rows = [f"| {_cell(fault)} | {_cell(outcome)} | {n:,} |" for (fault, outcome), n in sorted(counts.items())]
    return "\n".join(["| fault | outcome | count |", "|---|---|---:|", *rows]) + "\n" if rows else ""


def handled_table(lines: Iterable[str]) -> str:
    """Lines of `handled`, each once, in Markdown."""
    found = {(seen["where"], seen["what"], seen["outcome"]) for seen in _seen(lines) if "what" in seen}
    rows = [f"| {' | '.join(map(_cell, row))} |" for row in sorted(found)]
    head = ["| where | input or trouble | what becomes of it |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n" if rows else ""


def _seen(lines: Iterable[str]) -> list[dict]:
    return [json.loads(line) for line in filter(str.strip, lines)]


def listed(page: str) -> set[str]:
    """Faults that stand in the page's table."""
    block = BLOCK.search(page)
    rows = block[0].splitlines() if block else []
    return {row.split(" | ")[0].removeprefix("| ").replace("\\|", "|") for row in rows if row.startswith("| ")}


def listed_as_handled(page: str) -> set[str]:
    """Inputs and troubles that stand in the page's second table."""
    block = HANDLED.search(page)
    rows = block[0].splitlines() if block else []
    return {row.split(" | ")[1].replace("\\|", "|") for row in rows if row.startswith("| ")}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the tables into the page."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.reliability LINES.jsonl")
    lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
    page = PAGE.read_text("utf-8")
    faults = table(lines)
    lost = listed(page) - listed(f"{_BEGIN}{faults}{_END}") if faults else set()
    if lost:
        print(f"not of a whole run: the table of faults stays, for {min(lost)!r} is not in the lines", file=sys.stderr)
    for block, made in ((BLOCK, "" if lost else faults), (HANDLED, handled_table(lines))):
        if made:
            page = block.sub(lambda found, made=made: found[1] + made + found[2], page)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
