"""A run is compared with the newest stored one that measured the same, and all runs are drawn on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.__main__ import phases
from benchmarks.page import write_page
from benchmarks.stored import ALL_PHASES, alike, middle, read_lines, store

BASE: dict[str, Any] = {**dict.fromkeys(ALL_PHASES, 1.0), "jobs": 3, "processor": {"tasks": 8.0, "compilers": 2.0}}
LINE: dict[str, Any] = {
    "peer": "Rivermeet",
    "workload": "fk",
    "rows_in": 30,
    "final_rows": 10,
    "checksum": 7,
    "peak_rss_mb": 1,
    "size": {"left": 10},
    "floor": {"append": 0.3},
    "at": 1_700_000_000,
    "epochs": [BASE, BASE | {"fold": 4.0}, BASE | {"fold": 6.0}, BASE | {"fold": 5.0}],
}
OTHER: dict[str, Any] = LINE | {"peer": "Other engine", "seconds_initial": 3.0, "seconds_per_epoch": 0.5}
ABSENT: dict[str, Any] = {"peer": "Not installed", "workload": "fk", "absent": "why", "at": LINE["at"]}


def test_the_run_before_is_the_newest_of_the_same_records_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "results.jsonl"
    assert not read_lines(path)
    larger, cut = LINE | {"size": {"left": 11}}, LINE | {"epochs": [BASE]}
    store(path, [LINE | {"at": 1}, LINE | {"at": 2}])
    store(path, [larger, cut, OTHER, ABSENT, LINE | {"cache": True}])
    assert [line["at"] for line in alike(read_lines(path), LINE)] == [1, 2]


def test_a_run_of_before_pieces_is_of_the_same_records(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    store(path, [LINE | {"size": {"left": 10, "pieces": 3}}, LINE])
    (before,) = alike(read_lines(path), LINE | {"size": {"left": 10, "pieces": 1}})
    assert before["size"] == {"left": 10}


def test_the_middle_epoch_is_one_after_the_first() -> None:
    assert middle(LINE)["fold"] == 5.0
    assert middle(LINE | {"epochs": [BASE | {"fold": 9.0}]})["fold"] == 9.0


def test_the_table_has_the_ratio_to_the_run_before() -> None:
    before = LINE | {"epochs": [BASE, BASE | {"fold": 10.0}]}
    (fold,) = (line for line in phases(LINE, before).splitlines() if line.split()[:1] == ["fold"])
    assert fold.split() == ["fold", "1.00", "5.00", "10.00", "0.50"]
    (fold,) = (line for line in phases(LINE, None).splitlines() if line.split()[:1] == ["fold"])
    assert fold.split() == ["fold", "1.00", "5.00"]
    assert "; 3 Spark jobs; one append" in phases(LINE, None)


def test_the_table_has_whose_processor_time_it_was() -> None:
    later = [BASE | {"processor": {"tasks": seconds}} for seconds in (1.0, 3.0, 2.0)]
    lines = phases(LINE | {"epochs": [BASE, *later]}, None).splitlines()
    assert [line.split() for line in lines[-2:]] == [["compilers", "2.0", "0.0"], ["tasks", "8.0", "2.0"]]


def test_the_page_has_runs_and_peers_and_needs_no_network(tmp_path: Path) -> None:
    page = tmp_path / "bench" / "page.html"
    write_page(page, [LINE | {"at": 1_600_000_000}, LINE, OTHER, ABSENT])
    text = page.read_text()
    assert "src=" not in text.split("<body>")[1]
    for word in ("fk, 30 records, 4 epochs", "2020-09-13", "2023-11-14", "Other engine", *ALL_PHASES):
        assert word in text
    assert "Not installed" not in text


def test_what_measured_something_else_is_drawn_by_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    hot = LINE | {"workload": "ss", "size": {"left": 10, "hot": 0.3}, "epochs": [BASE]}
    write_page(page, [LINE, LINE | {"cache": True}, hot])
    text = page.read_text()
    tables, streams = "fk, 30 records, 4 epochs", "ss, 30 records, 1 epoch"
    for title in (f"{tables}:", f"{tables}, net changes:", f"{streams}, 30% of one key:"):
        assert title in text
