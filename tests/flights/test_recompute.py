"""The feed delivers every row once, and the recomputation agrees with itself; no Spark."""

# pandas has no types of its own: pyright reads its source and takes every column for a frame, a series or an array.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false

from __future__ import annotations

import zlib
from pathlib import Path

import pandas as pd
import pytest

from rivermeet.assets.demo.feeds import feed, steps
from tests.flights import recompute
from tests.flights.recompute import FLIGHT_KEY, TABLE_KEY
from tests.flights.windowed import left_join, trips

HOUR = 3_600_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def delivered(root: Path, source: str) -> pd.DataFrame:
    paths = sorted((root / "flights" / source).iterdir())
    frames = [pd.read_csv(p, na_values=["NA"], keep_default_na=False) for p in paths]
    return pd.concat(frames, keys=[p.name[:7] for p in paths], names=["file"]).reset_index("file")


@pytest.mark.prove
def test_steps_deliver_what_pandas_expects(data: Path) -> None:
    for step in range(1, steps("flights") + 1):
        assert feed("flights", data, step)
        for source in ("departures", "arrivals"):
            expected = getattr(recompute, source)(step)
            found = delivered(data, source)
            day = pd.to_datetime(found[["year", "month", "day"]])
            found = found.assign(date=day)[FLIGHT_KEY].reset_index(drop=True)
            # The same rows in the same order: lateness depends on it.
            pd.testing.assert_frame_equal(found, expected[FLIGHT_KEY], check_dtype=False)
        assert len(delivered(data, "planes")) == len(recompute.planes(step))
        flights = delivered(data, "flights").drop_duplicates(TABLE_KEY, keep="last")
        assert len(flights) == len(recompute.flights(step))


@pytest.mark.prove
def test_a_second_call_writes_nothing(data: Path) -> None:
    feed("flights", data)
    before = {p: p.stat().st_mtime_ns for p in data.rglob("*") if p.is_file()}
    assert feed("flights", data) == []
    assert {p: p.stat().st_mtime_ns for p in data.rglob("*") if p.is_file()} == before


@pytest.mark.prove
def test_a_missing_file_comes_back_with_the_same_bytes(data: Path) -> None:
    feed("flights", data)
    for name in ("arrivals/2013-02.csv.gz", "planes/2013-01.csv.zip"):
        path = data / "flights" / name
        content = path.read_bytes()
        path.unlink()
        assert feed("flights", data) == [f"flights/{name}"]
        assert path.read_bytes() == content


@pytest.mark.slow
def test_the_last_state_of_every_flight_is_the_packages_row(data: Path) -> None:
    feed("flights", data)
    found = delivered(data, "flights").drop(columns=["file", "exported"])
    found = found.drop_duplicates(TABLE_KEY, keep="last")
    package = recompute.raw("flights.csv.zip")
    columns = list(package.columns)
    pd.testing.assert_frame_equal(recompute.comparable(found, columns), recompute.comparable(package, columns))


@pytest.mark.prove
def test_planes_that_come_late_join_exactly_their_flights() -> None:
    planes = recompute.raw("planes.csv")
    late = planes.loc[planes["manufacturer"] == recompute.LATE_MANUFACTURER, "tailnum"]
    fleet = recompute.fleet(2)
    assert len(late) and fleet.loc[fleet["tail_number"].isin(late), "manufacturer"].isna().all()
    fleet = recompute.fleet(3)
    assert fleet.loc[fleet["tail_number"].isin(late), "manufacturer"].notna().all()


def partitioned(records: pd.DataFrame, epoch: pd.Series | int) -> pd.DataFrame:
    keys = zip(*(records[c].tolist() for c in FLIGHT_KEY), strict=True)
    return records.assign(epoch=epoch, partition=[zlib.crc32(repr(key).encode()) % 4 for key in keys])


@pytest.mark.prove
@pytest.mark.parametrize("cut", ["steps", "one"])
def test_every_departure_is_a_trip_and_only_missing_arrivals_are_one_sided(cut: str) -> None:
    left, right = recompute.departures(), recompute.arrivals()
    left = partitioned(left, left["step"] if cut == "steps" else 1)
    right = partitioned(right, right["step"] if cut == "steps" else 1)
    rows, join = trips(left, right, before=0, after=24 * HOUR, grace=48 * HOUR)
    both = left.merge(right, "left", on=FLIGHT_KEY, suffixes=("", "_right"))
    assert join.late.empty
    columns = [*FLIGHT_KEY, "departed", "arrived"]
    pd.testing.assert_frame_equal(recompute.comparable(rows, columns), recompute.comparable(both, columns))


def test_windowed_join_on_records_by_hand() -> None:
    def records(*given: tuple[str, int]) -> pd.DataFrame:
        frame = pd.DataFrame(given, columns=["carrier", "_timestamp"])
        return frame.assign(flight=1, date="d", origin="EWR", partition=0, epoch=1)

    left = records(("a", 0), ("b", 5), ("c", 30), ("d", 6))
    right = records(("a", 10), ("b", 16), ("z", 31), ("c", 12))
    join = left_join(left, right, before=0, after=10, grace=5)
    # a pairs on the edge; b's arrival is outside of the window; d and c's arrival come when their windows have closed.
    found = {(row.left, None if pd.isna(row.right) else row.right) for row in join.rows.itertuples()}
    assert found == {(0, 0), (1, None)}
    assert set(join.late.itertuples(index=False, name=None)) == {("left", 3), ("right", 3)}
    assert join.lag == {"left": 24, "right": 19}
