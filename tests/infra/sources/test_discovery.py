"""Which files there are: patterns, hidden files, odd names, and files that changed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.sources.files.discovery import (
    FileState,
    _list_by_spark,
    discover,
    find_changed,
    refuse_changed,
    select_unconsumed,
    unopenable,
)
from rivermeet.infra.sources.places import spark_path
from rivermeet.pipelines import Files

ODD = ["a[1].csv", "x'; DROP TABLE y; --.csv", "a b%20+ü#,.csv", "{e}.csv", "b\\s.csv", "q?*.csv"]


def no_spark() -> NoReturn:
    raise AssertionError("local files are listed without Spark")


def names(pattern: str, root: Path) -> list[str]:
    found = discover(Files(pattern, "csv", {"id": "INT"}), str(root), no_spark)
    return [os.path.relpath(state.path, root) for state in found]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "da[t]a"
    for name in [
        "b.csv",
        "a.csv",
        ".hidden.csv",
        "_tmp.csv",
        "sub/c.csv",
        ".h/d.csv",
        "_h/e.csv",
        "n.txt",
    ]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("id\n1\n")
    (root / "folder.csv").mkdir()
    return root


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.csv", ["a.csv", "b.csv"]),
        ("a.csv", ["a.csv"]),
        ("*/*.csv", ["sub/c.csv"]),
        ("**/*.csv", ["a.csv", "b.csv", "sub/c.csv"]),
        (".h/*.csv", [".h/d.csv"]),
        ("sub", ["sub/c.csv"]),
        ("{a,n}.{csv,txt}", ["a.csv", "n.txt"]),
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("none*.csv", []),
    ],
)
def test_pattern_finds_files(tree: Path, pattern: str, expected: list[str]) -> None:
    assert names(pattern, tree) == expected


def test_absolute_path_and_file_url_need_no_data_root(tree: Path) -> None:
    escaped = str(tree).replace("[", "[[]").replace("a[[]t]", "a[[]t]")
    for pattern in (f"{escaped}/a.csv", f"file://{escaped}/a.csv", f"file:{escaped}/a.csv"):
        found = discover(Files(pattern, "csv", {"id": "INT"}), "/nowhere", no_spark)
        assert [state.path for state in found] == [f"{tree}/a.csv"]


def test_data_root_may_be_a_file_url(tree: Path) -> None:
    found = discover(Files("a.csv", "csv", {"id": "INT"}), f"file://{tree}", no_spark)
    assert [state.path for state in found] == [f"{tree}/a.csv"]


def test_odd_names_are_found_by_glob_and_by_name(tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / name).write_text("id\n1\n")
    assert names("*.csv", tmp_path) == sorted(ODD)
    for name in ODD:
        assert names(name, tmp_path) == [name]


def test_a_colon_is_refused_in_names_but_not_in_folders(tmp_path: Path) -> None:
    (tmp_path / "in:side").mkdir()
    for name in ("a:b.csv", "b.csv", "in:side/c.csv"):
        (tmp_path / name).write_text("id\n1\n")
    states = discover(Files("**/*.csv", "csv", {"id": "INT"}), str(tmp_path), no_spark)
    assert [state.path for state in states] == [f"{tmp_path}/{n}" for n in ("a:b.csv", "b.csv", "in:side/c.csv")]
    assert list(unopenable(states)) == [f"{tmp_path}/a:b.csv"]


def test_state_is_length_and_time_of_change(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n")
    os.utime(path, ns=(0, 1_234_567_891))
    found = discover(Files("a.csv", "csv", {"id": "INT"}), str(tmp_path), no_spark)
    assert found == (FileState(str(path), 3, 1234),)


def test_spark_lists_other_urls_alike(spark: SparkSession, tmp_path: Path) -> None:
    for name in [*ODD, ".h.csv", "_h.csv"]:
        (tmp_path / name).write_text("id\n1\n")
    here = discover(Files("*.csv", "csv", {"id": "INT"}), str(tmp_path), no_spark)
    there = list(_list_by_spark(f"file://{tmp_path}/*.csv", spark))
    assert sorted((s.path.removeprefix("file:"), s.length, s.modified_ms) for s in there) == [
        (s.path, s.length, s.modified_ms) for s in here
    ]
    assert list(_list_by_spark(f"file://{tmp_path}/none*.csv", spark)) == []


def test_changed_unconsumed_and_gone() -> None:
    a, b, c = (FileState(f"/d/{n}", 10, 1000) for n in "abc")
    longer, touched, new = (
        FileState("/d/a", 11, 1000),
        FileState("/d/b", 10, 2000),
        FileState("/d/e", 1, 1),
    )
    assert find_changed([a, b, c], [longer, touched, new]) == [(a, longer), (b, touched)]
    assert select_unconsumed([a, b, c], [longer, touched, new]) == [new]
    refuse_changed([a, b, c], [a, b, new])
    with pytest.raises(
        ValueError,
        match=r"^file /d/a changed after it was consumed \(10 bytes .* 11 bytes .*restore it",
    ):
        refuse_changed([a], [longer])


def test_spark_path_is_that_file_and_no_glob() -> None:
    assert spark_path("/d/a[1]?.csv") == r"file:///d/a\[1\]\?.csv"
    assert spark_path("s3a://b/k{1}") == r"s3a://b/k\{1\}"


def test_gzip_is_a_file_like_any(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    assert names("*.csv*", tmp_path) == ["a.csv.gz"]
