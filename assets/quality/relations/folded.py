"""What each relation of the invariants is for a folded table: what epochs since the last fold touch, or everything.

| scope | when |
|---|---|
| ``epoch`` | the table was folded on top of the fold before it, over one epoch or several |
| ``whole`` | the first fold, the fold of a rebuild, and checks that are run alone |

Several epochs are judged as one that read what they read together: a `span`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from rivermeet.assets.quality.relations.epoch import InputRelations, Relations, late
from rivermeet.assets.quality.relations.parts import bounds, node_part
from rivermeet.expectations.invariant import Scope, pack, quote
from rivermeet.expectations.results import Judged, Relation
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import between_sql, count_between, files_with
from rivermeet.infra.delta.io import last_note, note_upto, notes
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table, rows_in
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node, limits


@dataclass(frozen=True)
class Folded:
    """A node's folded table, and the epochs of its changelog that are judged with it.

    Attributes
    ----------
    span
        What these epochs read, as one plan; ``ends`` are the changelog's before them.
    version, note
        Of the changelog.
    table
        Version of the folded table; None where there is none.
    before
        Its version before the fold; None where everything is judged.
    """

    node: Node
    paths: NodeTables
    span: EpochPlan
    version: int
    note: CommitNote
    table: int | None = None
    before: int | None = None
    scope: Scope = "whole"


def find_fold(node: Node, paths: NodeTables, log: EpochLog) -> Folded | None:
    """The node's newest fold, to be judged by what it folded; None where there is none."""
    found, table = list(islice(notes(paths.table), 8)), open_table(paths.table)
    if not node.is_table or not found or table is None:
        return None
    note = found[0][1]
    version, committed = note_upto(paths.changelog, note.epoch)
    # Of the same incarnation alone: a table that a rebuild has replaced is judged as a whole.
    older = [(v, n.epoch) for v, n in found if n.incarnation == note.incarnation and n.epoch < note.epoch]
    plans = _plans(log, node, older[0][1], note) if older else None
    if plans is None:
        return whole(node, paths, log, table.version())
    return Folded(node, paths, span(plans), version, committed, table.version(), older[0][0], "epoch")


def whole(node: Node, paths: NodeTables, log: EpochLog, table: int | None) -> Folded:
    """Everything that a node has committed, or folded up to ``table``, a version of its folded table."""
    upto = next((note for v, note in notes(paths.table) if v <= table), None) if table is not None else None
    found = last_note(paths.changelog) if upto is None else note_upto(paths.changelog, upto.epoch)
    assert found is not None, f"'{node.name}' has committed nothing that could be judged"
    version, note = found
    plans = _plans(log, node, note.epoch - 1, note)
    assert plans is not None, f"epoch {note.epoch} of '{node.name}' was committed without a plan"
    return Folded(node, paths, plans[-1].model_copy(update={"ends": {}}), version, note, table)


def _plans(log: EpochLog, node: Node, after: int, upto: CommitNote) -> Sequence[EpochPlan] | None:
    """Plans of the epochs ``(after, upto]``; None where the log lacks the last of them."""
    plans = log.open_plans(node.name, after).values()
    mine = [plan for plan in plans if plan.epoch <= upto.epoch and plan.incarnation == upto.incarnation]
    return mine if mine and mine[-1].epoch == upto.epoch else None


def span(plans: Sequence[EpochPlan]) -> EpochPlan:
    """One plan that reads what these read together, one after the other."""
    first, last = plans[0], plans[-1]
    inputs = {
        side: part.model_copy(update=first.inputs[side].model_dump(include={"after", "table_version", "table_ends"}))
        for side, part in last.inputs.items()
    }
    before = first.model_dump(include={"ends", "stream_time", "previous_epoch", "output_version"})
    return last.model_copy(update={"inputs": inputs, **before})


def build_fold_relations(of: Folded, node: Node, tables: str) -> Judged:
    """The relations of stage ``table``, and how many rows each judges, for the node as these epochs ran it."""
    inputs = InputRelations(node, of.span, tables, everything=of.scope == "whole")
    own = _changelog(of)
    relations: Relations = {
        **inputs.all(),
        "changelog": lambda: own,
        "late": lambda: late(of.paths, of.span),
        "bounds": lambda: bounds(of.span),
    }
    added, read = count_between(of.span.ends, of.note.ends), sum(part.records for part in of.span.inputs.values())
    checked: dict[str, int | None] = {"changelog": added, "read": read}
    if of.table is not None:
        table = _table(of, of.table)
        relations |= {
            "table": lambda: table,
            "now": lambda: table if of.scope == "whole" else _of_keys(of, table, own),
            "was": lambda: _table(of, of.before),
            "sizes": lambda: _sizes(of),
        }
        checked["table"] = rows = rows_of_table(of, of.table)
        # One that changed little of a large table is judged by the keys that it folded.
        folded_rows = limits.SMALL_FOLD * (added + of.span.records)
        if of.scope == "epoch" and rows is not None and rows > max(limits.JUDGED_TABLE_ROWS, folded_rows):
            keys = Relation(f"SELECT DISTINCT key FROM ({own.sql}) WHERE key IS NOT NULL", own.parts)
            relations["touched"] = lambda: keys
            checked["table"] = added
    return Judged(relations, checked, of.scope)


def rows_of_table(of: Folded, version: int | None) -> int | None:
    """Rows of a version of the folded table, by the statistics of its log; None where it does not say."""
    table = None if version is None else open_table(of.paths.table, version)
    return None if table is None else rows_in(table)


def _changelog(of: Folded) -> Relation:
    if of.scope == "whole":
        return Relation("SELECT * FROM {changelog}", {"changelog": node_part(of.paths, "changelog", of.version)})
    after, upto = of.span.ends, of.note.ends
    rows = node_part(of.paths, "changelog", of.version, lambda files: files_with(files, after, upto))
    return Relation(f"SELECT * FROM {{changelog}} WHERE {between_sql(after, upto)}", {"changelog": rows})


def _of_keys(of: Folded, table: Relation, own: Relation) -> Relation:
    """Rows of a folded table with a key of the changelog's that are judged."""
    keys = f"SELECT key FROM ({own.sql})"
    keyed = f"SELECT *, {pack(of.node.key)} AS __key FROM ({table.of_keys(keys)})"
    return Relation(f"SELECT * EXCEPT (__key) FROM ({keyed}) WHERE __key IN ({keys})", {**table.parts, **own.parts})


def _table(of: Folded, version: int | None) -> Relation:
    """A version of the folded table; None: the newest without its rows."""
    known = of.table if version is None else version
    assert known is not None
    none = " WHERE false" if version is None else ""
    parts = {"table": node_part(of.paths, "table", known)}
    return Relation(f"SELECT * FROM {{table}}{none}", parts, [quote(column) for column in of.node.key], is_folded=True)


def _sizes(of: Folded) -> Relation:
    columns, parts = [], {}
    for name, version in (("before", of.before), ("after", of.table)):
        rows = 0 if version is None else rows_of_table(of, version)
        columns.append(f"{f'(SELECT count(*) FROM {{{name}}})' if rows is None else f'{rows}L'} AS {name}")
        parts |= {name: _table(of, version).parts["table"]} if rows is None else {}
    return Relation(f"SELECT {', '.join(columns)}", parts)
