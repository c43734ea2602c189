"""Plans of homes that were written before plans had one field for what a source reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.postgres.wal_range import KnownColumn, KnownRelation, KnownTable, WalRange
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.files.file_list import FileList, PlannedFile
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines.errors import NotFoundError

FILES = """{"pipeline":"shop","node":"orders","incarnation":2,"epoch":3,"since":2,"previous_epoch":2,"inputs":{},
"files":[{"path":"/data/a.csv","length":64,"modified_ms":17,"sha256":"5f0c","duplicate_of":null},
{"path":"/data/b.csv","length":64,"modified_ms":18,"sha256":"5f0c","duplicate_of":"/data/a.csv"}],
"topic":null,"delta":null,"wal":null,"retries":[1],"output_version":4,"ends":{"0":6},"stream_time":{"0":17},
"semantics":"3.1","code_version":"0.2.0","declared":{},"grace":null,"skipped":[]}"""
NO_FILES = """{"pipeline":"shop","node":"orders","incarnation":1,"epoch":1,"inputs":{},"files":[],"topic":null,
"delta":null,"wal":null}"""
TOPIC = """{"pipeline":"shop","node":"orders","incarnation":1,"epoch":3,"inputs":{},"files":[],"topic":{
"topic":"orders","id":"AbC","ranges":{"0":[5,9],"1":[2,2]},"high":{"0":11,"1":2},"added":[1],"lost":{"0":[3,5]},"times":{"0":17},
"leaders":{"0":4},"since":{"0":4},"anew":true},"delta":null,"wal":null,"retries":[]}"""
DELTA = """{"pipeline":"shop","node":"orders","incarnation":1,"epoch":3,"inputs":{},"files":[],"topic":null,"delta":{
"path":"/lake/orders","id":"x","start":3,"end":5,"snapshot":2,"passed":[4],"lost":[0,1],"rows":70},"wal":null}"""
WAL = """{"pipeline":"shop","node":"orders","incarnation":1,"epoch":3,"inputs":{},"files":[],"topic":null,"delta":null,
"wal":{"table":"shop.public.orders","system":"7","timeline":1,"slot":"s","publication":"p","relation":16384,
"published":9,"known":{"horizon":700,"columns":{"id":{"number":1,"type":23,"modifier":-1,"written_by":690}},"types":{},
"relations":{"16384":{"name":"orders","file":16390,"link":null}},"published":["12"]},"start":900,"end":1000,"at":17,
"rows":2}}"""
KNOWN = KnownTable(
    horizon=700,
    columns={"id": KnownColumn(number=1, type=23, modifier=-1, written_by=690)},
    types={},
    relations={16384: KnownRelation(name="orders", file=16390)},
    published=("12",),
)
JOIN = """{"pipeline":"shop","node":"sold","incarnation":1,"epoch":3,"inputs":{"left":{"version":3,"after":{"0":1},
"upto":{"0":4},"table_version":null,"table_ends":{},"incarnation":1}},"files":[],"topic":null,"delta":null,"wal":null}"""


@pytest.mark.parametrize(
    ("written", "reads", "records"),
    [
        (
            FILES,
            FileList(
                files=(
                    PlannedFile(path="/data/a.csv", length=64, modified_ms=17, sha256="5f0c"),
                    PlannedFile(
                        path="/data/b.csv", length=64, modified_ms=18, sha256="5f0c", duplicate_of="/data/a.csv"
                    ),
                )
            ),
            4,
        ),
        (NO_FILES, FileList(), 0),
        (
            TOPIC,
            TopicSlice(
                topic="orders",
                id="AbC",
                ranges={0: (5, 9), 1: (2, 2)},
                high={0: 11, 1: 2},
                added=(1,),
                lost={0: (3, 5)},
                times={0: 17},
                leaders={0: 4},
                since={0: 4},
                anew=True,
            ),
            4,
        ),
        (
            DELTA,
            VersionRange(path="/lake/orders", id="x", start=3, end=5, snapshot=2, passed=(4,), lost=(0, 1), rows=70),
            70,
        ),
        (
            WAL,
            WalRange(
                table="shop.public.orders",
                system="7",
                timeline=1,
                slot="s",
                publication="p",
                relation=16384,
                published=9,
                known=KNOWN,
                start=900,
                end=1000,
                at=17,
                rows=2,
            ),
            2,
        ),
        (JOIN, None, 3),
    ],
    ids=["files", "no files yet", "topic", "Delta table", "log", "join"],
)
def test_a_plan_of_before_is_read_and_kept(written: str, reads: SourceRange | None, records: int) -> None:
    plan = EpochPlan.model_validate_json(written)
    assert (plan.reads, plan.records) == (reads, records)
    again = json.loads(plan.model_dump_json())
    assert again["reads"] is None if reads is None else [*again["reads"]] == [reads.kind]
    assert EpochPlan.model_validate(again) == plan
    before: dict[str, Any] = json.loads(written)
    assert {name: again[name] for name in before if name in again} == {
        name: value for name, value in before.items() if name not in ("files", "topic", "delta", "wal")
    }


def test_a_kind_that_is_not_here_is_named() -> None:
    """By a sentence, and not by what pydantic makes of an error of a validator."""
    with pytest.raises(
        NotFoundError, match=r"^the plan reads 'tape', .*there are .*delta.*wal; install the package"
    ) as no:
        EpochPlan.model_validate({"pipeline": "p", "node": "n", "incarnation": 1, "epoch": 1, "reads": {"tape": {}}})
    assert no.value.fields == {"kind": "tape"}


def test_no_other_class_takes_the_plans_of_a_kind() -> None:
    with pytest.raises(TypeError, match=r"file_list.FileList reads 'files': give .*\.Tape a kind of its own"):

        class Tape(SourceRange):
            kind = "files"

    assert type(EpochPlan.model_validate_json(NO_FILES).reads) is FileList
