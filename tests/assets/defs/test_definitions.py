"""The graph that Dagster sees, as a table: a change of keys, edges or checks shows in review."""

from __future__ import annotations

import dagster as dg
import pytest

from rivermeet.assets.definitions import defs
from rivermeet.assets.defs.automation import WHOLE
from rivermeet.assets.defs.report_asset import REPORT_KEY
from rivermeet.assets.project import Project
from rivermeet.pipelines.window import duration_text

SOURCE = {"dense_changelog", "dense_offsets", "record_shape"}
TABLE = {"fold_equals_table", "table_size", "unique_keys"}
JOINED = SOURCE | {"one_row_per_cause", "processing_order"}
LOOKED_UP = JOINED | {"loaded_first", "row_of_every_record", "rows_come_from_facts", "stream_row_has_value"}
WINDOWED = SOURCE | {
    *("alone_after_close", "alone_in_time", "alone_only_on_outer_sides", "every_lonely_record", "every_pair_in_window"),
    *("late_share", "made_of_values", "no_duplicate_pair", "no_spurious_one_sided_row", "pair_in_window"),
    *("processing_order", "stream_row_has_value"),
}

# Asset: (what it is made of, its checks).
GRAPH: dict[str, dict[str, tuple[set[str], set[str]]]] = {
    "flights": {
        "departures_changelog": (set(), SOURCE),
        "arrivals_changelog": (set(), SOURCE),
        "airlines_changelog": (set(), SOURCE),
        "airlines_table": ({"airlines_changelog"}, TABLE),
        "airports_changelog": (set(), SOURCE),
        "airports_table": ({"airports_changelog"}, TABLE),
        "flights_changelog": (set(), SOURCE),
        "flights_table": ({"flights_changelog"}, TABLE),
        "planes_changelog": (set(), SOURCE),
        "planes_table": ({"planes_changelog"}, TABLE),
        "trips_changelog": ({"departures_changelog", "arrivals_changelog"}, WINDOWED),
        "departures_by_airline_changelog": (
            {"departures_changelog", "airlines_changelog", "airlines_table"},
            LOOKED_UP | {"late_share"},
        ),
        "enriched_departures_changelog": (
            {"departures_by_airline_changelog", "airports_changelog", "airports_table"},
            LOOKED_UP,
        ),
        "fleet_changelog": ({"flights_changelog", "flights_table", "planes_changelog", "planes_table"}, JOINED),
        "fleet_table": ({"fleet_changelog"}, TABLE | {"equals_batch_join", "foreign_key_hash", "found_by_foreign_key"}),
    },
    "invoice": {
        "purchases_changelog": (set(), SOURCE),
        "products_changelog": (set(), SOURCE),
        "products_table": ({"products_changelog"}, TABLE),
        "customers_changelog": (set(), SOURCE),
        "customers_table": ({"customers_changelog"}, TABLE),
        "priced_purchases_changelog": (
            {"purchases_changelog", "products_changelog", "products_table"},
            LOOKED_UP | {"late_share"},
        ),
        "invoices_changelog": (
            {"priced_purchases_changelog", "customers_changelog", "customers_table"},
            LOOKED_UP | {"late_share"},
        ),
        "known_products_changelog": ({"purchases_changelog", "products_changelog", "products_table"}, LOOKED_UP),
        "checked_purchases_changelog": (
            {"known_products_changelog", "customers_changelog", "customers_table"},
            LOOKED_UP,
        ),
    },
}
# Steps in one line of the code are one node: its changelog and its table are committed together.
STEPS = {"flights": 10, "invoice": 7}


@pytest.fixture(scope="module")
def repository() -> dg.RepositoryDefinition:
    return dg.Definitions.merge(defs()).get_repository_def()


@pytest.mark.parametrize("pipeline", GRAPH)
def test_keys_edges_and_checks(repository: dg.RepositoryDefinition, pipeline: str) -> None:
    graph = repository.asset_graph
    assets = [key for key in graph.get_all_asset_keys() if key.path[0] == pipeline]
    found = {
        key.path[1]: (
            {parent.path[1] for parent in graph.get(key).parent_keys},
            {check.name for check in graph.get(key).check_keys},
        )
        for key in assets
    }
    # It stands by itself: nothing is made of it, and it is not in the pipeline's job.
    assert found.pop("maintenance") == (set(), set())
    assert found == GRAPH[pipeline]
    assert all(len(key.path) == 2 for key in assets)
    assert {graph.get(key).group_name for key in assets} == {pipeline}
    assert not any(graph.get(key).is_partitioned for key in assets)


def test_the_report_stands_after_everything(repository: dg.RepositoryDefinition) -> None:
    graph = repository.asset_graph
    made = {dg.AssetKey([pipeline, asset]) for pipeline, assets in GRAPH.items() for asset in assets}
    assert graph.get(REPORT_KEY).parent_keys == made
    assert (graph.get(REPORT_KEY).group_name, graph.get(REPORT_KEY).child_keys) == ("quality", set())


def test_there_is_nothing_else(repository: dg.RepositoryDefinition) -> None:
    others = repository.asset_graph.get_all_asset_keys() - {REPORT_KEY}
    assert {key.path[0] for key in others} == set(GRAPH)


def test_no_step_waits_in_a_pool(repository: dg.RepositoryDefinition) -> None:
    """A run that was killed would keep its place there; nodes have locks of their own."""
    graph = repository.asset_graph
    assert not any(graph.get(key).pools for key in graph.get_all_asset_keys())


@pytest.mark.parametrize("pipeline", GRAPH)
def test_one_job_and_one_stopped_schedule(repository: dg.RepositoryDefinition, pipeline: str) -> None:
    job = repository.get_job(pipeline)
    assert job.executor_def.name == "in_process"
    assert len(job.nodes) == STEPS[pipeline]
    schedule = repository.get_schedule_def(f"{pipeline}_every_15_minutes")
    assert (schedule.job_name, schedule.cron_schedule) == (pipeline, "*/15 * * * *")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    # By it the sensor knows that such a run left nothing unread.
    assert schedule.tags[WHOLE] == pipeline


def test_jobs_and_schedules_are_no_more_than_these(repository: dg.RepositoryDefinition) -> None:
    named = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    jobs = {job for pipeline in GRAPH for job in (pipeline, f"{pipeline}_maintenance")}
    assert named == jobs
    assert {schedule.job_name for schedule in repository.schedule_defs} == jobs
    assert len(repository.schedule_defs) == len(jobs)
    assert {s.default_status for s in repository.schedule_defs} == {dg.DefaultScheduleStatus.STOPPED}
    assert {sensor.name for sensor in repository.sensor_defs} == {f"{pipeline}_on_new_epoch" for pipeline in GRAPH}
    assert {sensor.default_status for sensor in repository.sensor_defs} == {dg.DefaultSensorStatus.STOPPED}


def test_joins_say_what_they_do() -> None:
    said = {n.name: n.join_spec.description for p in Project.find().pipelines for n in p.nodes if n.join_spec}
    assert said["trips"] == (
        "Left join of stream `departures` and stream `arrivals` within a window of 0 s before and 24 h after, "
        "with 48 h of grace. Semantics 3.1."
    )
    assert said["invoices"] == (
        "Inner join of stream `priced_purchases` and global table `customers`, looked up by `account_id`. "
        "Semantics 3.1."
    )
    assert said["fleet"] == (
        "Left join of table `flights` and table `planes` on `tail_number` → `tail_number`. Semantics 3.1."
    )


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 ms"),
        (1500, "1500 ms"),
        (2000, "2 s"),
        (90_000, "90 s"),
        (120_000, "2 min"),
        (86_400_000, "24 h"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
