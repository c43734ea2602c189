"""The whole demo: four deliveries, each run and checked, and every row of every result recomputed by pandas."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.demo import flights as flights_feed
from rivermeet.assets.demo.feeds import feed, steps
from rivermeet.assets.project import Project
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import StreamStreamJoin
from rivermeet.pipelines.flights import PIPELINE
from tests.assets.home import Home, homed
from tests.flights import recompute, windowed
from tests.flights.recompute import FLIGHT_KEY, TABLE_KEY, comparable
from tests.flights.slice import in_slice, sliced

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=["slice", "whole"])
def home(
    request: pytest.FixtureRequest, settings: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Home]:
    """The pipeline after all four deliveries: of a slice of the flights, or of all."""
    with (
        pytest.MonkeyPatch.context() as patched,
        homed(PIPELINE, tmp_path_factory.mktemp("flights"), settings) as made,
    ):
        if request.param == "slice":
            patched.setattr(flights_feed, "read", lambda name, read=flights_feed.read: sliced(name, read(name)))
            patched.setattr(recompute, "raw", lambda name, raw=recompute.raw: _sliced_frame(name, raw(name)))
        recompute.forget()
        for step in range(1, steps("flights") + 1):
            feed("flights", made.data, step)
            assert made.run(), made.said
        yield made
    recompute.forget()


def _sliced_frame(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    if name != "flights.csv.zip":
        return rows
    wanted = [in_slice(c, f) for c, f in zip(rows["carrier"], rows["flight"], strict=True)]
    return rows.loc[wanted, :]


@pytest.fixture
def project(home: Home) -> Project:
    return home.project


def changelog(project: Project, name: str) -> pd.DataFrame:
    """A changelog with its key and value columns side by side; the airport called origin, not the file."""
    path = project.paths(PIPELINE.node(name)).changelog
    found = last_note(path)
    assert found is not None
    rows = read(project.sessions.open(), path, found[0])
    provenance = [c for c in rows.columns if c not in ("key", "value", "timestamp", "origin")]
    return rows.select("key.*", "value.*", rows.timestamp.alias("_timestamp"), *provenance).toPandas()


def same(found: pd.DataFrame, expected: pd.DataFrame, columns: list[str]) -> None:
    pd.testing.assert_frame_equal(comparable(found, columns), comparable(expected, columns))


def delivered(project: Project, name: str, recomputed: pd.DataFrame) -> pd.DataFrame:
    """Recomputed records, in order of arrival, with the partition that the project gave each key."""
    partitions = changelog(project, name)[[*FLIGHT_KEY, "partition"]]
    for frame in (partitions, recomputed):
        frame["date"] = pd.to_datetime(frame["date"])
    return recomputed.merge(partitions, on=FLIGHT_KEY, how="left", validate="1:1").rename(columns={"step": "epoch"})


def test_trips_are_those_of_pandas(project: Project) -> None:
    join = PIPELINE.node("trips").join_spec
    assert isinstance(join, StreamStreamJoin)
    departures = delivered(project, "departures", recompute.departures())
    arrivals = delivered(project, "arrivals", recompute.arrivals())
    window = {"before": join.window.before, "after": join.window.after, "grace": join.window.grace}
    expected, reference = windowed.trips(departures, arrivals, **window)
    columns = [c for c in expected.columns if c in {*FLIGHT_KEY, *join.select, "_timestamp", "partition", "epoch"}]
    same(changelog(project, "trips"), expected, columns)
    late = open_table(project.paths(PIPELINE.node("trips")).late)
    assert len(reference.late) == (0 if late is None else late.count())


def test_enriched_departures_are_those_of_pandas(project: Project) -> None:
    expected = recompute.enriched_departures()
    same(changelog(project, "enriched_departures"), expected, list(expected.columns))


def test_fleet_is_that_of_pandas(project: Project) -> None:
    expected = recompute.fleet()
    path = project.paths(PIPELINE.node("fleet")).table
    table = open_table(path)
    assert table is not None
    same(read(project.sessions.open(), path, table.version()).toPandas(), expected, list(expected.columns))


def test_planes_that_came_late_joined_exactly_their_flights(project: Project) -> None:
    before = recompute.flights(2)
    late = set(recompute.planes(3)["tail_number"]) - set(recompute.planes(2)["tail_number"])
    expected = before.loc[before["tail_number"].isin(list(late)), TABLE_KEY]
    rows = changelog(project, "fleet")
    by_plane = rows[rows["trigger"].map(lambda trigger: trigger["side"] == "right") & (rows["epoch"] == 3)]
    again = by_plane.assign(time_hour=pd.to_datetime(by_plane["time_hour"], utc=True)).merge(
        before.assign(time_hour=pd.to_datetime(before["time_hour"], utc=True))[TABLE_KEY], on=TABLE_KEY
    )
    assert len(expected) > 0
    same(again, expected, TABLE_KEY)


def test_nothing_new_is_green_and_writes_nothing(home: Home) -> None:
    project = home.project
    before = {n.name: last_note(project.context(PIPELINE).paths(n).changelog) for n in PIPELINE.nodes}
    assert home.run()
    assert before == {n.name: last_note(project.context(PIPELINE).paths(n).changelog) for n in PIPELINE.nodes}
