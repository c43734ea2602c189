"""The same is violated, whether an epoch is judged by the rows that it can need of a table or by all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from assets.epoch.materialise import materialise
from assets.quality.relations import folded
from assets.quality.relations.inputs import InputRelations
from assets.refused.states import AuditRefusedError
from infra.settings import Settings
from joins import equal_columns
from pipelines import Files, Pipeline
from tests.assets.home import Home, homed
from tests.assets.quality.bugs import Bug, changed, copied, plant

pytestmark = pytest.mark.timeout(600)

PIPELINE = Pipeline("numbers")
KEYS = {"orders": "o", "people": "k", "more": "o"}
ORDERS, PEOPLE, MORE = (
    PIPELINE.table(
        name,
        Files(f"{name}/*.csv", "csv", {key: "BIGINT", "ref": "BIGINT", "at": "BIGINT"}),
        key=[key],
        value=["ref"],
        timestamp="at",
        partitions=1,
    )
    for name, key in KEYS.items()
)
SELECT = {"mine": "left.ref", "theirs": "right.ref"}
ORDERS.join(PEOPLE, "named", foreign_key="ref", select=SELECT)
ORDERS.outer_join(MORE, "same", select=SELECT)
DELIVERIES: tuple[Mapping[str, list[str]], ...] = (
    {"orders": ["5,70,1", "6,70,2", "100,71,3"], "people": ["70,1,1", "71,2,1"], "more": ["5,8,1", "200,9,2"]},
    {"orders": ["101,71,10", "102,70,11"], "people": ["71,3,12"], "more": ["100,7,13"]},
)
BUGS = {
    "none": [],
    "tombstones of a far key": [
        Bug(node, "", copied("key.o = 101", key="named_struct('o', 5L)", value="NULL")) for node in ("named", "same")
    ],
    "rows of a far key": [
        Bug(node, "", copied("key.o = 101", key="named_struct('o', 6L)")) for node in ("named", "same")
    ],
    "another value": [
        Bug(node, "", changed("key.o = 101", value="named_struct('mine', 71L, 'theirs', 99L)"))
        for node in ("named", "same")
    ],
}
LAST = "all at once"
BUGS[LAST] = [bug for bugs in BUGS.values() for bug in bugs]


@contextmanager
def delivered(folder: Path, settings: Settings) -> Iterator[Home]:
    """A home whose first delivery is there; the second one waits in its files."""
    with homed(PIPELINE, folder, settings) as home:
        for number, files in enumerate(DELIVERIES, 1):
            for source, lines in files.items():
                (home.data / source).mkdir(parents=True, exist_ok=True)
                (home.data / source / f"{number}.csv").write_text("\n".join([f"{KEYS[source]},ref,at", *lines, ""]))
            if number < len(DELIVERIES):
                run(home, number)
        yield home


def run(home: Home, number: int) -> dict[str, int | None]:
    """Run all nodes and fold what they commit; how many rows violate each invariant, of epochs and of folds."""
    found: dict[str, int | None] = {}
    for node in PIPELINE.stored:
        try:
            outcome = materialise(home.platform, node, f"run-{number}")
        except AuditRefusedError as refused:
            results = refused.results
        else:
            assert outcome.judgement is not None, node.name
            results = outcome.judgement.results
            if outcome.folded is not None:
                found |= {
                    f"{node.name}: {verdict.invariant}": verdict.details["violations"]
                    for verdict in outcome.folded.verdicts
                }
        found |= {f"{node.name}: {result.invariant.id}": result.violations for result in results}
    return found


@pytest.mark.parametrize("bug", [*(pytest.param(bug, marks=pytest.mark.prove) for bug in BUGS if bug != LAST), LAST])
def test_the_same_is_violated(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    monkeypatch.setattr(folded, "LARGE", 0)
    asked: list[str | None] = []
    given = InputRelations.needed

    def needed(relations: InputRelations) -> object:
        found = given(relations)
        asked.extend(found)
        return found

    monkeypatch.setattr(InputRelations, "needed", needed)
    violated: list[dict[str, int | None]] = []
    for name in ("narrow", "wide"):
        with delivered(tmp_path / name, settings) as home, pytest.MonkeyPatch.context() as patched:
            if name == "wide":
                patched.setattr(equal_columns, "FAMILIES", {})
            asked.clear()
            plant(patched, BUGS[bug])
            violated.append(run(home, 2))
            assert bool(asked) == (name == "narrow")
    narrow, wide = violated
    assert narrow == wide
    assert None not in wide.values()
    bad = {rule.partition(":")[0] for rule, count in wide.items() if count}
    assert bad == ({"named", "same"} if BUGS[bug] else set())
