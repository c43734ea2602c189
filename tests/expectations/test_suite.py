"""Great Expectations judges as we do, keeps its results, and cannot pass what was not judged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from expectations.gx.suite import SuiteError, judge
from expectations.invariants import ALL
from expectations.results import InvariantResult

PASSED = InvariantResult(ALL[0], 10, 0, [], "SELECT '{1}'", 0.1)
VIOLATED = InvariantResult(ALL[1], 10, 3, [{"key": "1"}, {"key": '"$x"', "b": "2"}], "SELECT 1", 0.1)
LOST = InvariantResult(ALL[2], None, None, [], "SELECT 1", 0.1, "Gone: version 3\nlong trace")
UNKNOWN = InvariantResult(ALL[3], None, 0, [], "SELECT 1", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gx")


def _kept(folder: Path, suite: str) -> list[dict]:
    files = (folder / "gx/uncommitted/validations" / suite).rglob("*.json")
    return [json.loads(file.read_text()) for file in files]


def test_verdicts_equal_the_results(folder: Path):
    results = [PASSED, VIOLATED, LOST, UNKNOWN]
    verdicts = judge(results, "shop/seen", "epoch-000001", folder)
    assert [(v.invariant, v.success, v.state) for v in verdicts] == [
        (ALL[0].id, True, "passed"),
        (ALL[1].id, False, "violated"),
        (ALL[2].id, False, "not evaluated"),
        (ALL[3].id, True, "passed"),
    ]
    passed, violated, lost, unknown = verdicts
    assert passed.description == f"{ALL[0].sentence} No violations in 10 rows."
    assert violated.description == f"{ALL[1].sentence} 3 violations in 10 rows."
    assert lost.description == f"{ALL[2].sentence} Could not be evaluated: Gone: version 3"
    assert unknown.description == f"{ALL[3].sentence} No violations."
    assert (violated.severity, violated.blocking) == ("critical", True)
    assert violated.details["sample"] == VIOLATED.sample
    assert violated.details["sql"] == "SELECT 1" and lost.details["error"] == LOST.error


def test_results_are_kept_with_their_rows(folder: Path):
    judge([PASSED, VIOLATED, LOST], "shop/kept", "epoch-000001", folder)
    (kept,) = _kept(folder, "shop-kept")
    by_id = {one["expectation_config"]["kwargs"]["invariant"]: one for one in kept["results"]}
    assert kept["statistics"]["evaluated_expectations"] == 3
    violated, lost = by_id[ALL[1].id], by_id[ALL[2].id]
    assert violated["result"]["observed_value"] == "3 of 10"
    assert violated["result"]["details"]["unexpected_rows"] == VIOLATED.sample
    assert violated["expectation_config"]["meta"]["source"] == ALL[1].source
    assert not lost["success"] and "version 3" in json.dumps(lost["exception_info"])


def test_a_later_epoch_may_have_other_invariants_and_old_runs_are_pruned(folder: Path):
    for epoch in range(4):
        judge([PASSED], "shop/pruned", f"epoch-{epoch:06}", folder, keep=2)
    assert not judge([VIOLATED], "shop/pruned", "epoch-000004", folder, keep=2)[0].success
    runs = sorted(path.name for path in (folder / "gx/uncommitted/validations/shop-pruned").iterdir())
    assert runs == ["epoch-000003", "epoch-000004"]


def test_what_is_not_judged_is_an_error(folder: Path):
    with pytest.raises(SuiteError, match="2 invariants declared, 1 judged"):
        judge([PASSED, PASSED], "shop/twice", "epoch-000001", folder)
    assert judge([], "shop/none", "epoch-000001", folder) == []


def test_assets_judged_at_once_do_not_mix(folder: Path):
    def one(number: int) -> bool:
        result = VIOLATED if number % 2 else PASSED
        return judge([result], f"shop/asset{number}", "epoch-000001", folder)[0].success

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [True, False] * 4
