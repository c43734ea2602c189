"""The table of docs/reliability.md: fault, outcome, count, as tests saw them.

A test that has survived a fault says so by `survived`. With ``RIVERMEET_RELIABILITY=LINES.jsonl`` each call appends a
line to that file, and ``python -m tests.reliability LINES.jsonl`` makes the table of them. The lines of one whole run
belong together: the table is made anew, so what the run left out is no longer in it.
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
BLOCK = re.compile(
    r"(<!-- faults: python -m tests\.reliability LINES\.jsonl -->\n).*?(<!-- end of faults -->)", re.DOTALL
)
SETTING = "RIVERMEET_RELIABILITY"


def survived(fault: str, outcome: str, count: int = 1) -> None:
    """Note that a fault ended so, so many times; 0 is a count too (rows lost: 0)."""
    target = os.environ.get(SETTING)
    if not target:
        return
    # One write of one line: several test processes may append to the file.
    with Path(target).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"fault": fault, "outcome": outcome, "count": count}) + "\n")


def table(lines: Iterable[str]) -> str:
    """The lines, summed, in Markdown."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in filter(str.strip, lines):
        seen = json.loads(line)
        counts[seen["fault"], seen["outcome"]] += seen["count"]
    head = ["| fault | outcome | count |", "|---|---|---:|"]
    rows = [f"| {_cell(fault)} | {_cell(outcome)} | {n:,} |" for (fault, outcome), n in sorted(counts.items())]
    return "\n".join(head + rows) + "\n"


def listed(page: str) -> set[str]:
    """Faults that stand in the page's table."""
    block = BLOCK.search(page)
    rows = block[0].splitlines() if block else []
    return {row.split(" | ")[0].removeprefix("| ").replace("\\|", "|") for row in rows if row.startswith("| ")}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the table into the page."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.reliability LINES.jsonl")
    made = table(Path(sys.argv[1]).read_text("utf-8").splitlines())
    page = PAGE.read_text("utf-8")
    PAGE.write_text(BLOCK.sub(lambda block: block[1] + made + block[2], page), "utf-8")


if __name__ == "__main__":
    main()
