"""``rivermeet replay`` and ``explain`` as a user meets them: bad cases, comparisons, both ways of running."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.replay import compare_rows
from rivermeet.assets.replay.cases import Case, parse, parse_case, refusal
from rivermeet.assets.replay.epochs import in_epochs
from rivermeet.assets.replay.run import at_once, replay

Given = dict[str, Any]
PAGE = Path(__file__).parents[3] / "docs" / "guides" / "replay.md"
RECORD = {"side": "left", "key": "k", "value": "a", "ts": 1}
WINDOW = {"before_ms": 10, "after_ms": 10, "grace_ms": 5}


def case(**given: Any) -> Given:
    return {"name": "c", "join": "stream-stream", "type": "left", "window": WINDOW, "input": [RECORD], **given}


def problem(given: Any) -> str:
    found = parse_case(given, "3.1")
    if isinstance(found, Case):
        found = refusal(found)
    assert found is not None, "no problem found"
    return found


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (case(join="stream-river"), "join: input should be 'stream-stream'"),
        (case(join="stream-table", type="outer"), "only the stream's records cause rows"),
        (case(join="stream-globaltable", type="outer"), "no outer join"),
        (case(join="fk-table-table", type="outer"), "no outer form"),
        (case(join="one-to-many"), "no left form"),
        (case(window=None), "window is missing"),
        (case(window={"before_ms": 1}), "window.after_ms: field required"),
        (case(window={"before_ms": -5, "after_ms": 1}), "ends before it starts"),
        (case(window={**WINDOW, "grace_ms": -1}), "grace is -1 ms"),
        (case(input=[{**RECORD, "side": "middle"}]), "input.0.side: input should be 'left' or 'right'"),
        (case(input=[RECORD, {**RECORD, "ts": "soon"}]), "input.1.ts: input should be a valid integer"),
        (case(input=[{**RECORD, "ts": None}]), "input.0.ts"),
        (case(input=[{**RECORD, "ts": 2**62}]), "input.0.ts: input should be less than"),
        (case(input=[{**RECORD, "ts": -1}], semantics="kafka-4"), "stops at a negative timestamp"),
        (case(semantics="5.0"), "semantics: input should be '3.1'"),
        (case(store="in_memory"), "store: input should be 'rocksdb'"),
        (case(join="stream-table", table_grace_ms=5), "only wait for a versioned table"),
        (case(join="stream-table", right_versioned_ms=9, semantics="0.10.2"), "KIP-889"),
        (case(join="stream-table", type="inner", semantics="0.10.0"), "no inner stream-table join"),
        (case(join="fk-table-table", semantics="0.10.0"), "has the profiles"),
        (case(join="table-table", commit_every=0), "commit_every: input should be greater than or equal to 1"),
        (case(self=True, input=[{**RECORD, "side": "right"}]), "a self-join has left records only"),
        ("late bird", "a case is an object"),
    ],
)
def test_a_case_that_cannot_run_says_why(given: Any, says: str) -> None:
    assert says in problem(given)


def test_a_file_that_holds_no_cases_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parse("[")
    with pytest.raises(ValueError, match="no list of cases"):
        parse('{"case": 1}')
    assert parse('{"cases": [1]}') == [1]


@pytest.mark.parametrize(
    ("content", "says"), [(b"\x1f\x8b\x08", "is not JSON: 'utf-8' codec"), (b"{}", "is no list of cases; give")]
)
def test_such_a_file_is_named_in_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "cases").write_bytes(content)
    shown = CliRunner().invoke(main, ["replay", str(tmp_path / "cases")])
    assert shown.exit_code == 2
    assert f"Invalid value for CASES: {tmp_path}/cases {says}" in shown.output


@pytest.mark.prove
def test_bad_cases_leave_the_others_alone(spark: SparkSession) -> None:
    given = [case(), case(join="?"), case(name="empty", input=[]), case(name=7, type="outer"), "no case"]
    found = replay(spark, given, "3.1", at_once)
    assert [sorted(result) for result in found] == [
        ["name", "output"],
        ["error", "name"],
        ["name", "output"],
        ["name", "output"],
        ["error", "name"],
    ]
    assert [result["name"] for result in found] == ["c", "c", "empty", 7, "?"]


def test_a_cases_own_semantics_win(spark: SparkSession) -> None:
    """Alone in its window, a record is emitted at once by 0.10.2, and not at all while its window is open by 3.1."""
    found = replay(spark, [case(), case(semantics="3.1")], "0.10.2", at_once)
    assert [len(result["output"]) for result in found] == [1, 0]


@pytest.mark.prove
def test_the_guide_shows_what_replay_prints(spark: SparkSession) -> None:
    text = PAGE.read_text("utf-8")
    (given,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    printed = re.search(r"```text\n(\[\n\{\"name\": \"late bird\".*?)```", text, re.DOTALL)
    assert printed is not None
    wanted = json.loads(printed[1])
    assert replay(spark, json.loads(given), "3.1", at_once) == wanted
    assert replay(spark, json.loads(given), "3.1", in_epochs(3)) == wanted


def test_rows_that_differ_are_explained() -> None:
    one = {"name": "c", "output": [{"key": "k", "value": "a-null", "ts": 1, "in": 0}] * 2}
    other = {"name": "c", "output": [{"key": "k", "value": "a-null", "ts": 1, "in": 0}]}
    assert compare_rows(one, one) == []
    assert compare_rows(one, other) == ['- in 0  "k": "a-null" @1']
    assert compare_rows({"name": "c", "error": "why"}, other) == ["- error: why", '+ in 0  "k": "a-null" @1']


def test_explain_says_where_profiles_differ() -> None:
    explained = CliRunner().invoke(main, ["explain", "flights", "trips", "--compare", "kafka-4"])
    assert explained.exit_code == 0, explained.output
    assert "When does a record without a partner give its one-sided row?" in explained.output
    assert "Which timestamp" not in explained.output
    same = CliRunner().invoke(main, ["explain", "flights", "fleet", "--compare", "kafka-4"])
    assert "give the same rows" in same.output
    refused = CliRunner().invoke(main, ["explain", "flights", "fleet", "--compare", "0.10.0"])
    assert refused.exit_code and "has no fk-table-table join" in refused.output
    source = CliRunner().invoke(main, ["explain", "flights", "planes"])
    assert source.exit_code and "is not a join" in source.output
