"""What of a physical plan costs, as text that stays the same from run to run.

Of Spark's formatted plan it has shuffles, broadcasts, joins, sorts, windows, aggregates, unions and scans, and leaves
out projections, filters, ids, paths and numbers of partitions. What stands below a line runs before it. A frame that is
kept (cached) stands once, however many places read it, as it is computed once:

    rows
      Sort partition, sequence
      Exchange hashpartitioning(partition)
      Union
        - Kept 1
        - Scan delta a/table
    Kept 1
      Window
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

_LINE = re.compile(r"(?P<place>[ :+|-]*)(?:\* )?(?P<name>\w.*?) *\((?P<id>\d+)\)")
_SILENT = {"Project", "Filter", "ColumnarToRow", "InMemoryRelation"}
_COUNTED: Mapping[str, Callable[[str], bool]] = {
    "shuffles": lambda line: line.startswith("Exchange "),
    "broadcasts": lambda line: line == "BroadcastExchange",
    "joins": lambda line: "Join " in line,
    "sorts": lambda line: line.startswith("Sort "),
    "windows": lambda line: line == "Window",
    "aggregates": lambda line: "Aggregate" in line,
    "scans": lambda line: line.startswith("Scan "),
    "reads of kept frames": lambda line: line.startswith("Kept "),
}


@dataclass
class _Node:
    name: str
    id: str
    children: list[_Node] = field(default_factory=list)


@dataclass
class _Plan:
    """One plan while it is written down."""

    details: Mapping[str, Mapping[str, str]]
    """Node id to what is said of it, by word."""
    blocks: list[_Node]
    """The rows' own plan, and those of the frames that are kept."""

    def lines(self, node: _Node) -> Iterator[str]:
        if node.name == "InMemoryTableScan":
            yield self._kept(node)
            return
        if node.name not in _SILENT:
            yield self._changed(node)
        several = len(node.children) > 1
        for child in node.children:
            for at, line in enumerate(self.lines(child)):
                yield f"{'    ' if at else '  - '}{line}" if several else line

    def _kept(self, node: _Node) -> str:
        # Places that read one frame name the same nodes below it.
        below = node.children[0].children[0]
        numbers = [block.id for block in self.blocks]
        if below.id not in numbers:
            self.blocks.append(below)
            numbers.append(below.id)
        return f"Kept {numbers.index(below.id)}"

    def _changed(self, node: _Node) -> str:
        said, name = self.details.get(node.id, {}), node.name
        if name == "Exchange":
            # hashpartitioning(key#12, 4), ENSURE_REQUIREMENTS, [plan_id=34]
            how, _, why = re.sub(r", \[plan_id=\d+\]$", "", said["Arguments"]).rpartition(", ")
            asked = "" if why == "ENSURE_REQUIREMENTS" else f" {why}"
            return f"Exchange {_plain(re.sub(r'(, )?[0-9]+[)]$', ')', how))}{asked}"
        if name == "Sort":
            # [key#12 ASC NULLS FIRST, order#13 ASC NULLS FIRST], false, 0
            return f"Sort {_plain(said['Arguments'].rpartition(']')[0][1:]).replace(' ASC NULLS FIRST', '')}"
        if name.startswith("Scan parquet"):
            index, _, places = said["Location"].partition(" ")
            table = re.search(r"/(\w+/(?:changelog|table|memory|late))\b", places)
            return f"Scan {'parquet' if index == 'InMemoryFileIndex' else 'delta'} {table[1] if table else '?'}"
        return name


def skeleton(explained: str) -> str:
    """The skeleton of what ``EXPLAIN FORMATTED`` says of a plan, below a line of what it counts."""
    if "===== Subqueries" in explained:
        raise ValueError("the plan has subqueries, which a skeleton does not show: teach it to")
    tree, _, details = explained.partition("\n\n")
    plan = _Plan(dict(map(_detail, re.split(r"\n\n+", details.strip()))), [_tree(tree)])
    lines: list[str] = []
    for at, block in enumerate(plan.blocks):
        lines += [f"Kept {at}" if at else "rows", *(f"  {line}" for line in plan.lines(block))]
    return "\n".join([", ".join(f"{n} {what}" for what, n in counts(lines).items()), *lines]) + "\n"


def counts(lines: list[str]) -> dict[str, int]:
    """How often what is counted stands in a skeleton's lines."""
    nodes = [line.strip(" -") for line in lines if line.startswith(" ")]
    return {what: sum(map(is_one, nodes)) for what, is_one in _COUNTED.items()}


def difference(found: str, golden: str) -> str | None:
    """One line about what is new in a skeleton; None where nothing is."""
    if found == golden:
        return None
    now, then = found.splitlines(), golden.splitlines()
    before = counts(then)
    changed = [f"{n} {what}, were {before[what]}" for what, n in counts(now).items() if n != before[what]]
    if changed:
        return "; ".join(changed)
    at, one, other = next((at, a, b) for at, (a, b) in enumerate(zip_longest(now, then), 1) if a != b)
    return f"as many of all, but line {at} is {_line(one)}, was {_line(other)}"


def _line(line: str | None) -> str:
    return "not there" if line is None else f"'{line.strip(' -')}'"


def _plain(expression: str) -> str:
    return re.sub(r"#\d+L?", "", expression)


def _tree(text: str) -> _Node:
    found: list[tuple[int, _Node]] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        place, node = len(match["place"]), _Node(match["name"], match["id"])
        while found and found[-1][0] >= place:
            found.pop()
        if found:
            found[-1][1].children.append(node)
        else:
            root = node
        found.append((place, node))
    return root


def _detail(text: str) -> tuple[str, Mapping[str, str]]:
    """A paragraph such as ``(12) Exchange``, ``Arguments: …`` by the node's id and the words before the colons."""
    head, *rest = text.splitlines()
    said = (re.split(r"(?: \[\d+\])?: ", line, maxsplit=1) for line in rest if ": " in line)
    return head.partition(")")[0].lstrip("("), dict(said)  # pyright: ignore[reportArgumentType]
