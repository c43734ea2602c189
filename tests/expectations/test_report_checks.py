"""The checks of a node as the report shows them: the newest judgement counts, and what is missing is never green."""

from __future__ import annotations

from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.report.checks import checks, worst
from rivermeet.expectations.results import InvariantResult, history
from rivermeet.expectations.rules.verify import VERIFY
from tests.expectations.nodes import both, seen
from tests.expectations.recorded import found, judged

OF_BOTH = invariants_of(both)
RULES = [rule.id for rule in invariants_of(seen)]


def test_rows_are_the_declared_invariants_and_cells_the_epochs() -> None:
    shown = checks(seen, judged(seen, {1: {}, 2: {}}), [1, 2])
    assert [row.invariant for row in shown.rows] == RULES
    assert {tuple(cell.epoch for cell in row.cells) for row in shown.rows} == {(1, 2)}
    assert (shown.holding, len(shown.standing), shown.worst) == (len(RULES), len(RULES), "none")
    assert shown.rows[0].sentence == invariants_of(seen)[0].sentence


def test_the_newest_judgement_of_an_epoch_counts() -> None:
    first = judged(seen, {1: found(seen, "pair_in_window", 2)})
    second = [row | {"judged_at": row["judged_at"] + 1} for row in judged(seen, {1: {}}, run="r2")]
    for rows in (first + second, second + first):
        assert checks(seen, rows, [1]).worst == "none"
    older = [row | {"judged_at": None} for row in second]
    assert checks(seen, first + older, [1]).worst == "critical"


def test_an_epoch_that_was_not_judged_holds_nothing() -> None:
    shown = checks(seen, judged(seen, {1: {}}), [1, 2])
    assert (shown.holding, len(shown.standing), shown.worst) == (0, len(RULES), "not judged")
    assert {row.newest.state for row in shown.rows} == {"not judged"}


def test_an_invariant_that_is_new_was_not_judged() -> None:
    rows = [row for row in judged(seen, {1: {}}) if row["invariant"] != "late_share"]
    shown = checks(seen, rows, [1])
    assert (shown.holding, len(shown.standing), shown.worst) == (len(RULES) - 1, len(RULES), "not judged")


def test_an_invariant_that_is_declared_no_more_counts_while_it_was_judged() -> None:
    gone = [row | {"invariant": "gone"} for row in judged(seen, {1: found(seen, "late_share", 9999)})]
    gone = [row for row in gone if row["state"] == "violated"]
    shown = checks(seen, judged(seen, {1: {}, 2: {}}) + gone, [1, 2])
    assert (shown.rows[-1].invariant, shown.rows[-1].sentence) == ("gone", "")
    assert [cell.look for cell in shown.rows[-1].cells] == ["warning", "not judged"]
    assert len(shown.standing) == len(RULES)
    assert len(checks(seen, judged(seen, {1: {}}) + gone, [1]).standing) == len(RULES) + 1


def test_what_could_not_be_evaluated_is_no_pass() -> None:
    shown = checks(both, judged(both, {1: found(both, "fold_equals_table", None, error="gone")}), [1])
    assert shown.replay is not None and shown.replay.newest.look == "not evaluated"
    assert (shown.holding, shown.worst) == (len(shown.rows) - 1, "not evaluated")


def test_the_gravest_counts() -> None:
    assert worst([]) == "none"
    assert worst(["warning", "not evaluated", "not judged"]) == "not evaluated"
    assert worst(["not evaluated", "critical"]) == "critical"


def test_no_epoch_no_rows() -> None:
    assert checks(seen, [], []).rows == ()


def test_what_was_verified_is_a_row_of_its_own_and_nobody_has_to() -> None:
    proved = history(both, 1, "verify-1", [InvariantResult(VERIFY, 9, 2, [{"offset": "7"}], "", 0.5, scope="whole")])
    rows = judged(both, {1: {}, 2: {}}) + proved
    at_once, later = checks(both, rows, [1]), checks(both, rows, [1, 2])
    assert [row.invariant for row in at_once.rows if row.is_replay] == ["fold_equals_table", "verify"]
    assert (at_once.worst, at_once.holding, len(at_once.standing)) == ("critical", len(OF_BOTH), len(OF_BOTH) + 1)
    (row,) = (row for row in later.rows if row.invariant == "verify")
    assert [cell.state for cell in row.cells] == ["violated", "not judged"]
    assert (row.sentence, row.cells[0].sample) == (VERIFY.sentence, [{"offset": "7"}])
    # A later epoch makes nothing of it right.
    assert (later.worst, later.holding, len(later.standing)) == ("critical", len(OF_BOTH), len(OF_BOTH) + 1)
    again = rows + history(both, 2, "verify-2", [InvariantResult(VERIFY, 9, 0, [], "", 0.5, scope="whole")])
    assert checks(both, again, [1, 2]).worst == "none", "until it is verified again"
