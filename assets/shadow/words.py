"""An audit in words, as the terminal and the asset show it, and as the epoch log keeps it for those who show it later.

    named up to epoch 3, profile kafka-4, against topic 'named'
      left: topic 'orders' up to offsets 0: 120
      WRONG extra, stale_foreign_key: 1 row. The row joins a right row that was replaced or deleted since …
        {"id":"o1"}
          ours: no value @40, caused by customers/0@7
          theirs: named/0@12 {"n":1,"eur":5} @10
          left: joined orders/0@0 {"fk":"c","n":1} @5, now orders/0@9 {"fk":"c","n":2} @30
          right: joined customers/0@0 {"eur":5} @10, now customers/0@7 no value @40

A place is the topic's where it is known, else our changelog's; ``@`` stands before Kafka's offset, and a time (ms).
Held by ``tests/assets/shadow/test_shadow_runs.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rivermeet.assets.project import Project
from rivermeet.pipelines import Shadow
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from rivermeet.assets.shadow.audit import Difference, Shadowed


def lines(outcome: Shadowed) -> Iterator[str]:
    """What there is to say of an audit, one fact a line."""
    node, topic = outcome.shadow.node, outcome.shadow.topic
    yield f"{node.name} up to epoch {outcome.epoch}, profile {outcome.profile}, against topic '{topic}'"
    yield from (f"  {line}" for line in describe_progress(outcome))
    ranges = ", ".join(f"{p}: {end}" for p, (_, end) in outcome.marks.output.ranges.items())
    yield f"  output: {pluralize(outcome.records, 'record')}, up to offsets {ranges}"
    if outcome.undecodable:
        yield f"  {outcome.undecodable:,} of them cannot be read as rows of the node and will not be compared:"
        yield from (f"    {why}" for why in outcome.why)
    what = "key" if node.is_table else "distinct row"
    yield f"  {pluralize(outcome.keys, what)} compared, {outcome.equal:,} equal{_otherwise(outcome)}"
    for found in outcome.differences:
        yield f"  {heading(found)}"
        for line in found.first:
            yield f"    {line['key']}"
            yield from (f"      {part}" for part in parts(outcome, line))
    yield f"  {outcome.losses:,} lost or wrong, {outcome.explained:,} explained; all of them: {outcome.path}"


def describe_progress(outcome: Shadowed) -> Iterator[str]:
    """Up to where each topic was read, by us and by the application."""
    progress = outcome.marks.progress
    for one in outcome.inputs:
        read = ", ".join(f"{p}: {end}" for p, end in sorted(one.ends.items()))
        where = f"{one.side}: topic '{one.topic}' up to offsets {read or 'none'}"
        if progress is not None and (behind := one.behind(progress)):
            where += f"; the application is {pluralize(behind, 'offset')} behind: what they cause is not compared"
        if progress is not None and (ahead := one.ahead(progress)):
            where += f"; the application is {pluralize(ahead, 'offset')} ahead: what they cause is not ours yet"
        yield where
    if progress is None:
        yield "nobody knows how far the application has read: name its group"
    elif outcome.waiting:
        topics = ", ".join(f"{count:,} in '{topic}'" for topic, count in sorted(progress.waiting.items()))
        yield f"the application is at work; of its own records it has not read {topics}"


def heading(found: Difference) -> str:
    """Kind, cause and number of a difference, and what it means."""
    mark = "explained" if found.cause.explained else "LOST" if found.kind == "missing" else "WRONG"
    sentence = found.cause.sentence[0].upper() + found.cause.sentence[1:]
    return f"{mark} {found.kind}, {found.cause.id}: {pluralize(found.count, 'row')}. {sentence}"


def parts(outcome: Shadowed, line: Mapping[str, Any]) -> Iterator[str]:
    """Both sides' records of one difference."""
    yield f"ours: {_ours(outcome, line['ours'])}"
    theirs = line["theirs"]
    place = f"{outcome.shadow.topic}/{theirs['partition']}@{theirs['offset']} " if theirs else ""
    yield f"theirs: {place}{_content(theirs)}"
    for side in ("left", "right"):
        joined, now = line[f"joined_{side}"], line[side]
        said = [] if joined is None else [f"joined {_record(outcome, side, joined)}"]
        if now is not None and now != joined:
            said.append(f"now {_record(outcome, side, now)}" if joined else _record(outcome, side, now))
        if said:
            yield f"{side}: {', '.join(said)}"


def _ours(outcome: Shadowed, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "no row"
    trigger = row["trigger"]
    caused = "" if trigger is None else f", caused by {_place(outcome, trigger['side'], trigger)}"
    return f"{_content(row)}{caused}"


def _record(outcome: Shadowed, side: str, row: Mapping[str, Any]) -> str:
    return f"{_place(outcome, side, row)} {_content(row)}"


def _place(outcome: Shadowed, side: str, row: Mapping[str, Any]) -> str:
    partition, offset = row["partition"], row["offset"]
    for one in outcome.inputs:
        if one.side == side and (place := one.place(partition, offset)) is not None:
            return place
    return f"{side}, partition {partition}, offset {offset}"


def _content(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "no row"
    return f"{'no value' if row['value'] is None else row['value']} @{row['timestamp']}"


def _otherwise(outcome: Shadowed) -> str:
    if not outcome.otherwise:
        return ""
    table = outcome.shadow.node.is_table
    how = "with other rows before the last, or in another order" if table else "whose rows came in another order"
    return f", {pluralize(outcome.otherwise, 'key')} of them {how}: no difference"


_RECORDED = ("at", "epoch", "profile", "records", "undecodable", "keys", "equal", "otherwise")
_RECORDED += ("losses", "explained", "path")


def record(project: Project, outcome: Shadowed) -> None:
    """Keep what was found."""
    shadow = outcome.shadow
    body = {
        **{name: getattr(outcome, name) for name in _RECORDED},
        "node": shadow.node.name,
        "topic": shadow.topic,
        "read": list(describe_progress(outcome)),
        "differences": [
            {
                "heading": heading(one),
                "explained": one.cause.explained,
                "first": [{"key": line["key"], "parts": list(parts(outcome, line))} for line in one.first],
            }
            for one in outcome.differences
        ],
    }
    log = project.context(shadow.node.pipeline).log
    log.write(shadow.id, 1, outcome.epoch, "shadowed", json.dumps(body), attempt=outcome.at)


def last_recorded(project: Project, shadow: Shadow) -> Mapping[str, Any] | None:
    """What the last audit found, as `record` keeps it; None where there was none."""
    found = project.context(shadow.node.pipeline).log.bodies(shadow.id, "shadowed")
    lines: list[Mapping[str, Any]] = [json.loads(body) for _, body in found]
    return max(lines, key=lambda line: line["at"], default=None)
