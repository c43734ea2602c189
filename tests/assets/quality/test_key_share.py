"""A large epoch's rows are derived once more for one part of the keys, which is said wherever its checks are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from assets.defs.keys import changelog_key, table_key
from assets.quality.quality_table import lines_about, quality_lines
from assets.quality.standing import standing_epoch
from assets.reports.quality_report import write_report
from expectations.invariants import ALL, invariants_of
from infra.settings import Settings
from pipelines import Files, JoinWindow, Pipeline
from tests.assets.home import Home, homed

PIPELINE = Pipeline("shares")
_FILES = {source: Files(f"{source}/*.csv", "csv", {"id": "STRING", "v": "STRING", "at": "BIGINT"}) for source in "abcd"}
_OF = {"key": ["id"], "value": ["v"], "timestamp": "at", "partitions": 2}
_BOTH = {"x": "left.v", "y": "right.v"}
_STREAMS: list[Any] = [PIPELINE.stream(name, _FILES[name], **_OF) for name in "ab"]  # pyright: ignore[reportArgumentType]
_TABLES: list[Any] = [PIPELINE.table(name, _FILES[name], **_OF) for name in "cd"]  # pyright: ignore[reportArgumentType]
SEEN = _STREAMS[0].left_join(_STREAMS[1], "seen", window=JoinWindow(10, 10, grace=0), select=_BOTH)
NAMED = _TABLES[0].outer_join(_TABLES[1], "named", select=_BOTH)
OF_SEEN, OF_NAMED = {"every_pair_in_window", "every_lonely_record"}, {"equals_batch_join"}


def deliver(home: Home, number: int) -> None:
    for source in "abcd":
        (home.data / source).mkdir(parents=True, exist_ok=True)
        rows = "".join(f"k{i},{source}{i},{1000 * number + i}\n" for i in range(number, number + 20))
        (home.data / source / f"{number}.csv").write_text("id,v,at\n" + rows)


def shown(home: Home) -> dict[str, str]:
    """Invariant to the part of the keys that Dagster shows with its newest check, of those that have one."""
    keys = [
        dg.AssetCheckKey(key(node), r.id) for key, node in ((changelog_key, SEEN), (changelog_key, NAMED)) for r in ALL
    ]
    keys += [dg.AssetCheckKey(table_key(NAMED), rule.id) for rule in invariants_of(NAMED)]
    found = home.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    events = {key.name: record.event.dagster_event for key, record in found.items() if record.event}
    of = {name: event.event_specific_data.metadata for name, event in events.items() if event}  # pyright: ignore
    return {name: str(metadata["judged_keys"].value) for name, metadata in of.items() if "judged_keys" in metadata}


@pytest.fixture(scope="module")
def home(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with homed(PIPELINE, tmp_path_factory.mktemp("shares"), settings) as home:
        home.platform.runner(PIPELINE).all_keys_up_to = 30
        deliver(home, 1)
        assert home.run(), home.said
        yield home


@pytest.mark.slow
def test_the_part_is_shown_wherever_checks_are(home: Home):
    (line,) = [line for line in home.said if " seen " in line]
    checks = len(invariants_of(SEEN))
    assert f"{checks} of {checks} checks hold, 2 of them in part 2 of 8 of the keys" in line
    assert shown(home) == dict.fromkeys(OF_SEEN | OF_NAMED, "part 2 of 8 of the keys")

    lines = quality_lines(home.platform.quality, lines_about(SEEN))
    assert {line["invariant"]: line["judged_keys"] for line in lines if line["judged_keys"]} == dict.fromkeys(
        OF_SEEN, "part 2 of 8 of the keys"
    )
    assert {line["checked"] for line in lines if line["judged_keys"]} == {None}
    assert {line["state"] for line in lines} == {"passed"}
    page = write_report(home.platform, [PIPELINE])[0].read_text()
    assert page.count(">⅛</button>") == 3 and "rows, part 2 of 8 of the keys" in page


@pytest.mark.prove
def test_a_run_without_news_and_checks_alone_say_what_they_judged(home: Home):
    standing = standing_epoch(home.platform, SEEN, "run")
    assert standing is not None
    said = {one.check_name: one.description for one in standing[1] if one.check_name in OF_SEEN}
    assert set(said.values()) == {"As judged with epoch 1, in part 2 of 8 of the keys; nothing is new since."}

    deliver(home, 2)
    assert home.run(), home.said
    assert shown(home) == dict.fromkeys(OF_SEEN | OF_NAMED, "part 3 of 8 of the keys")
    assert home.checks_of([SEEN, NAMED]).success
    assert shown(home) == {}, "all keys"
