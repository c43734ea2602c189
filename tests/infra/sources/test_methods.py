"""How large the methods are that Spark generates for a source: HotSpot compiles none above 8,000 bytecodes.

A whole stage of a source of some twenty columns is longer. Spark then runs it step by step, in methods that
are compiled: ``spark.sql.codegen.hugeMethodLimit`` of ``infra/engine/conf.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from rivermeet.infra.delta.io import last_note
from rivermeet.infra.engine.conf import SESSION
from rivermeet.infra.engine.fit import fit_compilation
from rivermeet.infra.epochs.rows import with_offsets
from rivermeet.pipelines import limits
from tests.infra.sources.kinds import FIT, KINDS, ROWS, Source, of_files
from tests.joins.plans.epochs import Explained, methods
from tests.plans import KINDS as TYPES
from tests.plans import columns

pytestmark = pytest.mark.prove
LIMIT = int(SESSION["spark.sql.codegen.hugeMethodLimit"])
WIDE: Mapping[str, Callable[[pytest.FixtureRequest], Source]] = {
    f"{suffix}, 20 columns more": partial(of_files, suffix=suffix, wide=columns(20, TYPES))
    for suffix in ("csv", "json")
}
PACKED = {"csv.gz", "zip", "json.gz"}
"""Read as what is not packed."""
LARGEST: Mapping[str, int] = {
    "csv": 3122,
    "json": 3122,
    "topic": 3594,
    "database": 3709,
    "delta append": 2818,
    "delta feed": 3715,
    "csv, 20 columns more": 9522,
    "json, 20 columns more": 14273,
}
"""Bytecodes of the largest method of an epoch, by kind of source."""


@pytest.mark.parametrize("kind", [kind for kind in (*KINDS, *WIDE) if kind not in PACKED])
def test_the_largest_method_is_on_record(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for module in FIT:
        monkeypatch.setattr(module, "fit_compilation", lambda *_: None)
    source = {**KINDS, **WIDE}[kind](request)
    # An earlier test may have left the session to interpret.
    fit_compilation(source.spark, limits.INTERPRETED_ROWS + 1)
    source.deliver(range(ROWS))
    source.run()
    source.deliver(range(ROWS, 2 * ROWS))
    step = source.step()
    found = last_note(step.paths.changelog)
    assert found is not None
    plan = step.plan(found[1], found[0], 2)
    assert plan is not None
    with Explained("methods") as shared:
        rows = with_offsets(step.compute(source.spark, plan, shared).rows, plan)
        largest = max([*shared.methods, *methods(rows)])
    assert largest == LARGEST[kind]


def test_what_is_wide_runs_step_by_step() -> None:
    assert {kind for kind, size in LARGEST.items() if size > LIMIT} == set(WIDE)
