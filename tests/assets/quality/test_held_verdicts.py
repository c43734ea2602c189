"""What checks that are run alone show while an epoch is held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rivermeet.assets.quality.judge_committed import as_held
from rivermeet.assets.quality.quality_table import record
from rivermeet.assets.refused.states import Broken, HeldEpoch
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.infra.epochs.log import EpochLog
from tests.expectations.nodes import orders


def test_what_a_held_epoch_violates_is_violated(tmp_path: Path) -> None:
    def session() -> Any:
        raise AssertionError("no session is needed")

    quality = Quality(str(tmp_path / "quality"), tmp_path / "lock", "duckdb", "1g", tmp_path / "spill")
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "log.lock"))
    context = EpochContext(str(tmp_path / "tables"), log, tmp_path, session, session, quality=quality)
    rule, other = invariants_of(orders)[:2]
    bad = InvariantResult(rule, 2, 1, [{"key": "d"}], "SELECT 2", 0.1)
    record(context, orders, 2, [bad, InvariantResult(other, 2, 0, [], "SELECT 2", 0.1)], "run", "epoch-000002")
    broken = Broken(id=rule.id, sentence=rule.sentence, violations=1, error=None, sql="SELECT 2")
    held = HeldEpoch(
        epoch=2, incarnation=1, attempt=1, rows=2, digest="5f0c", broken=(broken,), run="run", at="2026-11-29"
    )
    log.write(orders.name, 1, 2, "held", held.model_dump_json(), 1)
    committed = [InvariantResult(one, 3, 0, [], "SELECT 1", 0.1) for one in (rule, other)]
    first, second = as_held(context, orders, committed)
    assert (first.state, first.checked, first.sample, first.sql) == ("violated", 2, bad.sample, "SELECT 2")
    assert first.description == (
        f"{rule.sentence} 1 violation in 2 rows. That is epoch 2, which is held; what is committed holds."
    )
    assert second == committed[1]
