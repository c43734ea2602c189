"""A refused epoch waits for a person, who looks at its rows and releases or drops them, once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.runs import prepare_instance, run_pipeline
from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.project import Project
from rivermeet.assets.quality.quality_table import last_states, quality_lines
from rivermeet.assets.refused.states import HeldEpoch, UndecidableError, decide, decision_on, list_states, loss
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.io import append, last_note
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import JoinWindow, Node, Pipeline
from tests.assets.home import asked
from tests.assets.quality.held import (
    FILES,
    NOT_NEGATIVE,
    TILL,
    Till,
    billed,
    decided,
    die,
    judge_by,
    prices,
    rule,
    sales,
    till,
)
from tests.crashes import EITHER, How
from tests.reliability import survived

BAD = "a,5,1\nb,-1,2\nc,7,3\n"


@pytest.fixture
def negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that the deliveries break."""
    judge_by(monkeypatch, NOT_NEGATIVE)


def refused(target: Till, node: Node, run: str = "run") -> str:
    with pytest.raises(EpochRefusedError) as refusal:
        materialise(target, node, run)
    return str(refusal.value)


@pytest.fixture
def shop(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, negative: None) -> Iterator[Till]:
    """The till as the commands find it."""
    here = till(tmp_path, settings)
    monkeypatch.setenv("DAGSTER_HOME", str(here.settings.dagster_home))
    here.deliver("1", BAD)
    yield here


def command(project: Project, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["quarantine", *arguments], obj=project)


@pytest.mark.slow
def test_a_person_looks_releases_and_drops(shop: Till) -> None:
    said: list[str] = []
    shop = replace(shop, say=said.append)
    assert not run_pipeline(shop, TILL, ["sales", "billed"])
    (failed,) = [line for line in said if "FAILED" in line]
    assert "till.sales: epoch 1 was not committed. No amount is < 0. (1 violation; broken: not_negative)." in failed
    for verb in ("release", "drop"):
        assert f"`rivermeet quarantine {verb} till --select sales --epoch 1`" in failed
    status = status_table(shop, TILL)
    assert "epoch 1 held: not_negative; not materialised yet" in status
    assert status.endswith("held epochs: rivermeet quarantine show till")

    looked = command(shop, "show", "till", "--limit", "2")
    assert looked.exit_code == 0, looked.output
    lines = [line.strip() for line in looked.output.splitlines()]
    assert lines[0] == "till.sales, epoch 1: held"
    assert "not_negative: No amount is < 0. 1 violation" in lines
    shown = [json.loads(line) for line in lines if line.startswith("{")]
    assert [row["value"]["n"] for row in shown] == [5, -1]
    assert "… 1 more" in lines
    (everything,) = [line.removeprefix("all rows: ") for line in lines if line.startswith("all rows")]
    rows = asked(shop, everything)
    about = [[row[name] for name in ("epoch", "incarnation", "invariants", "sentence", "decided")] for row in rows]
    assert about == [[1, 1, "not_negative", "No amount is < 0.", None]] * 3
    assert all(row["run"] and row["at"] for row in rows)
    violations = looked.output.split("to see them:\n")[1].split("\n    {")[0]
    assert [(row["key"]["id"], row["n"]) for row in asked(shop, violations)] == [("b", -1)]

    released = command(shop, "release", "till", "--select", "sales", "--epoch", "1")
    assert released.exit_code == 0, released.output
    assert "till.sales, epoch 1: released by " in released.output
    assert any(
        "VIOLATED till/sales_changelog: No amount is < 0. 1 violation in 3 rows. The rows were" in s for s in said
    )
    assert shop.records(sales) == [(1, 0, "a", 5), (1, 1, "b", -1), (1, 2, "c", 7)]
    assert [row["decided"].split(" by ")[0] for row in shop.quarantined(sales)] == ["released"] * 3
    note = last_note(shop.paths(sales).changelog)
    assert note is not None and note[1].decided is not None
    assert (note[1].decided.how, note[1].decided.invariants) == ("release", ("not_negative",))
    again = command(shop, "release", "till", "--select", "sales", "--epoch", "1")
    assert again.exit_code == 1
    assert "epoch 1 is not held any more: it was released by" in again.output
    assert "no epoch of it is held" in again.output

    # The check stays red, here and in the history, and the node below runs; it finds the row wrong, too.
    assert last_states(shop.quality, sales)["not_negative"] == ("violated", 3, 1, 1, "duckdb", "")
    prepare_instance(shop.settings)
    with dg.DagsterInstance.get() as instance:
        key = dg.AssetCheckKey(changelog_key(sales), "not_negative")
        (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        assert record.event is not None
        evaluated = record.event.asset_check_evaluation
        assert evaluated is not None
        assert (evaluated.passed, evaluated.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert not run_pipeline(shop, TILL, ["sales", "billed"])
    assert shop.state(billed).state == "held"

    asks = ["quarantine", "drop", "till", "--select", "billed", "--epoch", "1"]
    declined = CliRunner().invoke(main, asks, obj=shop, input="n\n")
    assert declined.exit_code == 1
    assert "3 rows of till.billed, epoch 1. The rows that this epoch gave are lost" in declined.output
    assert shop.state(billed).state == "held"
    dropped = command(shop, "drop", "till", "--select", "billed", "--epoch", "1", "--yes")
    assert dropped.exit_code == 0, dropped.output
    assert shop.records(billed) == []
    assert [row["decided"].split(" by ")[0] for row in shop.quarantined(billed)] == ["dropped"] * 3
    # Judged when it was refused, and when it was dropped: what is shown reads its rows where they lie.
    lines = quality_lines(shop.quality, (pc.field("node") == "billed") & (pc.field("invariant") == "not_negative"))
    assert len(lines) == 2
    assert all([row["key"]["id"] for row in asked(shop, line["sql"])] == ["b"] for line in lines)

    shop.deliver("2", "d,8,4\n")
    assert run_pipeline(shop, TILL, ["sales", "billed"]), said
    assert shop.records(billed) == [(2, 0, "d", 8)]
    assert "held" not in status_table(shop, TILL)
    compared = CliRunner().invoke(main, ["verify", "till", "--select", "billed"], obj=shop)
    assert compared.exit_code == 1
    assert "epoch 2: 1 row computed again, 4 differing" in compared.output
    assert re.search("epoch 1 was dropped by .* at .*: its rows are not in the changelog", compared.output)


@pytest.mark.prove
def test_run_again_it_is_refused_again_and_kept_once(shop: Till) -> None:
    # Version 0.3.0 made the quarantine of three columns, and wrote no line of the log.
    paths = shop.paths(sales)
    spark, kinds = shop.sessions.open(), "epoch BIGINT, invariants STRING, row STRING"
    older = spark.createDataFrame([(1, "not_negative", "{}")], kinds)
    append(older, paths.quarantine, paths.app_id("quarantine", 1), 1)
    for run in ("first", "second"):
        assert "epoch 1 was not committed" in refused(shop, sales, run)
    shop.deliver("2", "d,8,4\n")
    refused(shop, sales)
    assert [row["run"] for row in shop.quarantined(sales)] == ["first"] * 3
    assert (shop.state(sales).held.run, shop.state(sales).held.attempt) == ("first", 1)
    with pytest.raises(UndecidableError, match="epoch 2 was never refused by its audit; held: epoch 1"):
        decide(shop.context(TILL), sales, 2, "release", "ines")
    # Once the rule is another one, the plan runs as it stands.
    with pytest.MonkeyPatch.context() as patched:
        judge_by(patched)
        assert materialise(shop, sales, "fixed").result is not None
    assert shop.state(sales).state == "resolved"
    assert len(shop.records(sales)) == 3
    with pytest.raises(UndecidableError, match="it was resolved by a later run; no epoch of it is held"):
        decide(shop.context(TILL), sales, 1, "drop", "ines")


@pytest.mark.prove
def test_a_release_is_of_the_rows_and_the_invariants_that_were_seen(
    shop: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(shop, sales)
    decide(shop.context(TILL), sales, 1, "release", "ines")
    assert shop.state(sales).state == "release to be run"
    with pytest.raises(UndecidableError, match=r"was released by ines at .*; `rivermeet run till --select sales`"):
        decide(shop.context(TILL), sales, 1, "drop", "tomas")
    judge_by(monkeypatch, NOT_NEGATIVE, rule("not_five", "= 5"))
    assert "broken: not_negative, not_five" in refused(shop, sales)
    held = shop.state(sales)
    assert (held.state, held.held.attempt, held.decision) == ("held", 2, None)
    assert {row["attempt"] for row in shop.quarantined(sales)} == {2}
    decide(shop.context(TILL), sales, 1, "release", "ines")
    # Other rows: what is read of a file may be declared otherwise.
    assert sales.source is not None
    without = replace(sales, origin=replace(sales.source, where="n <> 7"))
    refused(shop, without)
    assert (shop.state(sales).state, shop.state(sales).held.attempt) == ("held", 3)
    assert len(shop.quarantined(sales)) == 2
    decided(shop, without, 1, "release")
    assert shop.records(sales) == [(1, 0, "a", 5), (1, 1, "b", -1)]
    assert shop.state(sales).state == "released"


@pytest.mark.prove
@pytest.mark.timeout(1800)
@EITHER
@pytest.mark.parametrize(
    ("how", "points"),
    [
        ("release", ("decided", "computed", "sides-written", "committed", "merged")),
        ("drop", ("decided", "committed")),
    ],
)
def test_killed_anywhere_a_decision_takes_effect_once(
    settings: Settings, tmp_path: Path, negative: None, how: Any, points: tuple[str, ...], by: How
) -> None:
    disturbed, undisturbed = till(tmp_path / "killed", settings), till(tmp_path / "whole", settings)
    done = "released" if how == "release" else "dropped"
    for epoch, point in enumerate(points, 1):
        for here in (disturbed, undisturbed):
            here.deliver(point, f"a,{epoch},1\nb{epoch},-1,2\n")
            refused(here, prices)
        decided(undisturbed, prices, epoch, how)
        die(disturbed, prices, epoch, how, point, by)
        # Whatever runs the node next carries it out, or finds it done.
        assert (materialise(disturbed, prices, "next").result is None) == (point in ("committed", "merged"))
        assert materialise(disturbed, prices, "next").result is None, point
        assert disturbed.state(prices).state == undisturbed.state(prices).state == done
        survived(f"kill -9 of a {how}, {point}", "the next run carries the decision out, once")
    assert disturbed.records(prices) == undisturbed.records(prices)
    assert len(disturbed.records(prices)) == (2 * len(points) if how == "release" else 0)
    kept = [
        [
            (row["epoch"], row["row"].replace(here.settings.data, ""), row["decided"][:7])
            for row in here.quarantined(prices)
        ]
        for here in (disturbed, undisturbed)
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2 * len(points)


@pytest.mark.slow
def test_ended_before_its_commit_a_release_takes_effect_once(
    settings: Settings, tmp_path: Path, negative: None
) -> None:
    """At other points, and by SIGKILL: the test above."""
    here = till(tmp_path, settings)
    here.deliver("one", "a,1,1\nb,-1,2\n")
    refused(here, prices)
    die(here, prices, 1, "release", "sides-written", "raised")
    assert materialise(here, prices, "next").result is not None
    assert materialise(here, prices, "next").result is None
    assert here.state(prices).state == "released"
    assert len(here.records(prices)) == 2


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (sales, "will be in no changelog"),
        (prices, "A key keeps the value that it had until its next record"),
        (billed, "Its input records stay in the changelogs of its inputs"),
    ],
)
def test_what_a_drop_loses(node: Node, says: str) -> None:
    assert says in loss(node)


def test_no_drop_that_makes_later_rows_wrong() -> None:
    given: dict[str, Any] = {"key": ["id"], "value": ["n"], "timestamp": "at"}
    counter = Pipeline("counter")
    one, other = (counter.stream(name, FILES, **given) for name in ("one", "other"))
    window = JoinWindow("1s", "1s", grace="1s")
    select = {"l": "left.n", "r": "right.n"}
    alone = one.left_join(other, "alone", window=window, select=select)
    with pytest.raises(UndecidableError, match=r"'counter\.alone' is a left join of streams: it knows by its own rows"):
        loss(alone)
    assert loss(one.join(other, "pairs", window=window, select=select))
    with pytest.raises(UndecidableError, match=r"'counter\.last' is a computed table"):
        loss(one.to_table("last"))


def test_no_drop_of_all_that_there_is(settings: Settings, tmp_path: Path) -> None:
    here = till(tmp_path, settings)
    log = here.context(TILL).log
    plan = EpochPlan(pipeline="till", node="sales", incarnation=2, epoch=3, since=3)
    held = HeldEpoch(epoch=3, incarnation=2, attempt=1, rows=1, digest="d", broken=(), run="r", at="")
    log.write("sales", 2, 3, "plan", plan.model_dump_json())
    log.write("sales", 2, 3, "held", held.model_dump_json(), 1)
    with pytest.raises(UndecidableError, match=r"nothing would be left; .* `rivermeet rebuild till --select sales`"):
        decide(here.context(TILL), sales, 3, "drop", "ines")
    assert decide(here.context(TILL), sales, 3, "release", "ines").how == "release"


def test_what_became_of_an_epoch(tmp_path: Path) -> None:
    log = EpochLog(str(tmp_path / "log"), str(tmp_path / "lock"))
    held = HeldEpoch(epoch=1, incarnation=1, attempt=1, rows=1, digest="d", broken=(), run="r", at="")

    def hold(epoch: int, attempt: int = 1) -> None:
        line = held.model_copy(update={"epoch": epoch, "attempt": attempt})
        for _ in range(2):
            log.write("n", 1, epoch, "held", line.model_dump_json(), attempt)

    def decision(how: Any, epoch: int, attempt: int = 1) -> Decision:
        made = Decision(how=how, epoch=epoch, attempt=attempt, invariants=("x",), digest="d", by="ines", at="9:12")
        log.write("n", 1, epoch, "decided", made.model_dump_json(), attempt)
        return made

    for epoch in range(1, 8):
        hold(epoch)
    decision("release", 2)
    decision("drop", 3)
    log.write("n", 1, 4, "refused", "a rebuild")
    decision("release", 5)
    hold(5, 2)
    decision("drop", 6)
    # Of two who decide about one attempt, the first is right.
    assert decision("release", 6) and decision_on(log, EpochPlan(pipeline="p", node="n", incarnation=1, epoch=6)) == (
        Decision(how="drop", epoch=6, attempt=1, invariants=("x",), digest="d", by="ines", at="9:12")
    )
    assert decision_on(log, EpochPlan(pipeline="p", node="n", incarnation=1, epoch=5)) is None
    assert [state.summary for state in list_states(log, "n", committed=4)] == [
        *("resolved", "released by ines at 9:12", "dropped by ines at 9:12", "put aside: a rebuild"),
        *("held", "drop to be run", "held"),
    ]
    assert [state.held.epoch for state in list_states(log, "n", committed=4) if state.open] == [5, 6, 7]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "till"], 0, "no epoch was refused by its audit"),
        (["show", "till", "--select", "sold"], 1, "pipeline 'till' has no 'sold'"),
        (
            ["release", "till", "--select", "sales", "--epoch", "3"],
            1,
            "epoch 3 was never refused by its audit; no",
        ),
        (["drop", "till", "--select", "sales", "--epoch", "3", "--yes"], 1, "'till.sales': epoch 3 was never refused"),
    ],
)
def test_what_there_is_nothing_to_decide_about(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = command(till(tmp_path, Settings.from_env({})), *arguments)
    assert done.exit_code == code, done.output
    assert says in done.output
    assert not (tmp_path / "engine").exists(), "looking starts no engine"
