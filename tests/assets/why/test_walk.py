"""From a key's rows back to the lines of files, and why a key has no row; over changelogs, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.why.answer import as_json, tree_of
from tests.assets.why.small import ROW, Small, small


@pytest.fixture
def home(tmp_path: Path) -> Small:
    return small(tmp_path)


def text(home: Small, answer: Any) -> list[str]:
    """The tree's lines, paths below the data folder."""
    from rich.console import Console

    console = Console(width=1000, color_system=None)
    with console.capture() as captured:
        console.print(tree_of(answer))
    return [line.replace(f"{home.data}/", "").rstrip() for line in captured.get().splitlines()]


def test_a_row_is_traced_to_both_of_its_lines(home: Small) -> None:
    answer = home.walk().why(home.fleet, {"id": 11}, 10)
    assert text(home, answer) == [
        "small.fleet (table)  id=11: 1 row",
        "└── 1970-01-01 00:00:00.020000  tail=N3, built=1999  [epoch 2, partition 0, offset 1]",
        "    ├── joined with left 'flights' id=11: 1970-01-01 00:00:00.007000  tail=N3  "
        "[epoch 1, partition 0, offset 1]",
        "    │   └── from flights/1.csv, line 3",
        "    └── triggered by right 'planes' tail=N3: 1970-01-01 00:00:00.020000  built=1999  "
        "[epoch 2, partition 0, offset 4]",
        "        └── from planes/2.csv, line 3",
    ]


@pytest.mark.parametrize(
    ("id", "codes", "below"),
    [
        (12, ["no-right"], ["not-delivered"]),
        (13, ["no-foreign-key"], []),
        (99, ["no-left"], ["not-delivered"]),
    ],
)
def test_a_row_that_is_not_there_has_its_reason(home: Small, id: int, codes: list[str], below: list[str]) -> None:
    answer = home.walk().why(home.fleet, {"id": id}, 10)
    assert ([one.code for one in answer.absent], [b.code for one in answer.absent for b in one.below]) == (codes, below)
    assert (answer.total, answer.live, answer.rows) == (0, False, ())


def test_a_row_that_ended_says_by_what(home: Small) -> None:
    trigger = {"side": "right", "partition": 0, "offset": 4}
    home.write(home.fleet, 3, ROW, [({"id": 11}, None, 30, 0, 2, 3, trigger)])
    answer = home.walk().why(home.fleet, {"id": 11}, 10)
    ended = answer.rows[0].replaced
    assert ended is not None
    assert (ended.tombstone, ended.epoch, ended.side, ended.node) == (True, 3, "right", "planes")
    assert not answer.live and len(answer.rows) == 2


def test_the_newest_rows_are_shown(home: Small) -> None:
    trigger = {"side": "left", "partition": 0, "offset": 1}
    home.write(home.fleet, 3, ROW, [({"id": 11}, {"tail": "N3", "built": 1}, 30, 0, 2, 3, trigger)])
    answer = home.walk().why(home.fleet, {"id": 11}, 1)
    assert (answer.total, [row.offset for row in answer.rows]) == (2, [2])
    assert text(home, answer)[0] == "small.fleet (table)  id=11: 2 rows, the newest 1"


def test_a_dead_letter_is_why_a_source_lacks_a_key(home: Small) -> None:
    answer = home.walk().why(home.planes, {"tail": "N4"}, 10)
    (reason,) = answer.absent
    assert (reason.code, reason.says) == ("dead-letter", "its row is a dead letter: column 'built': 'x' is not INT")
    assert [(letter.node, letter.text) for letter in answer.dead] == [("planes", "N4,x,20")]


def test_a_dead_letter_of_what_a_row_points_to_is_shown(home: Small) -> None:
    assert not home.walk().why(home.fleet, {"id": 12}, 10).dead
    home.letters(home.planes, [("p.csv", 9, 2, "N9,x,20", "tail,built,ts", "column 'built': 'x' is not INT", 2)])
    (letter,) = home.walk().why(home.fleet, {"id": 12}, 10).dead
    assert (letter.node, letter.place) == ("planes", "p.csv, line 9")


def test_a_deleted_row_of_a_source(home: Small) -> None:
    answer = home.walk().why(home.planes, {"tail": "N2"}, 10)
    assert [row.value for row in answer.rows] == [{"built": 1990}, None]
    assert [one.code for one in answer.absent] == ["deleted"]


def test_files_that_were_not_read_are_counted(home: Small) -> None:
    home.file("planes/3.csv", "tail,built,ts\nN9,2000,30\n")
    answer = home.walk().why(home.planes, {"tail": "N9"}, 10)
    (reason,) = answer.absent
    assert (reason.code, reason.says) == (
        "not-delivered",
        "nothing that was read of 'planes' has the key; not read yet: 1 file",
    )


def test_an_input_that_was_computed_anew_is_named(home: Small) -> None:
    records = home.walk().records(home.fleet)
    assert records.find_rebuilt() == []
    from rivermeet.infra.delta.io import append_records, last_note
    from tests.assets.why.small import PLANE

    paths = home.project.context(home.pipeline).paths(home.planes)
    found = last_note(paths.changelog)
    assert found is not None
    note = found[1].model_copy(update={"incarnation": 2, "epoch": 3})
    append_records(PLANE.empty_table(), paths.changelog, paths.app_id("changelog", 2), note)
    answer = home.walk().why(home.fleet, {"id": 11}, 10)
    assert answer.notes == ("'planes' was recomputed, and 'fleet' has not read it since: run `rivermeet run small`",)


def test_json_has_the_whole_answer(home: Small) -> None:
    answer = home.walk().why(home.fleet, {"id": 10}, 10)
    found = json.loads(json.dumps(as_json(answer)))
    (row,) = found["rows"]
    assert [(cause["side"], cause["role"], cause["row"]["origin"]["line"]) for cause in row["causes"]] == [
        ("left", "trigger", 2),
        ("right", "joined", 2),
    ]
    assert row["value"] == {"tail": "N1", "built": 1987}
