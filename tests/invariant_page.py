"""The page of all invariants, docs/invariants.md, from their declarations: ``python -m tests.invariant_page``."""

from __future__ import annotations

from pathlib import Path

from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.expectations.invariants import ALL

PAGE = Path(__file__).parent.parent / "docs" / "invariants.md"
_HEAD = """# Invariants

What results are held to, on every epoch. Those of stage *epoch* are judged on the rows that it computed, the
blocking ones before they are committed, so that a violation commits nothing. Those of stage *table* are judged on what
is stored: after a fold, on the rows that it folded and the table; where checks are run alone and after a rebuild, on
everything. What could not be evaluated is shown as that, and is no pass; the next run judges that epoch once more.

The numbers are those of the documents' requirements. Invariants with a profile in brackets are what that profile keeps;
others are kept by all. An option that an invariant cannot hold for leaves it out, with its reason in the code.

This page is written by `python -m tests.invariant_page`; a pipeline's own rules are not on it.

| invariant | what holds | said by | of | judged | requirements |
|---|---|---|---|---|---|
"""


def text() -> str:
    """The page."""
    return _HEAD + "".join(f"| {' | '.join(_cells(invariant))} |\n" for invariant in ALL)


def _cells(invariant: Invariant) -> list[str]:
    families = "all" if invariant.families == ANY else ", ".join(sorted(invariant.families))
    kept = "" if invariant.profiles is None else f" ({', '.join(invariant.profiles)})"
    tables = ", tables" if invariant.needs_table and invariant.families == ANY else ""
    judged = f"{invariant.stage}, {invariant.severity}{', blocking' if invariant.blocking else ''}"
    numbers = ", ".join(map(str, invariant.requirements))
    return [f"`{invariant.id}`", invariant.sentence, invariant.source, families + tables + kept, judged, numbers]


if __name__ == "__main__":
    PAGE.write_text(text())
