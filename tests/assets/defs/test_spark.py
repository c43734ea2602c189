"""An asset of a user's takes dagster-pyspark's resource, and works with our tables on the engine of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource

from rivermeet.assets.definitions import defs
from rivermeet.assets.defs.keys import table_key
from rivermeet.assets.defs.spark import WarmSparkResource
from rivermeet.assets.epoch.materialise import materialise
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline
from tests.assets.home import Home, homed, project_in
from tests.builders import csv_file

SHOP = Pipeline("users")
_FILES = Files("prices/*.csv", "csv", {"id": "STRING", "n": "INT", "at": "BIGINT"})
prices = SHOP.table("prices", _FILES, key=["id"], value=["n"], timestamp="at", partitions=1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(SHOP, tmp_path_factory.mktemp("users"), settings) as found:
        csv_file(found.data / "prices" / "1.csv", "id,n,at", "a,1,1", "b,2,2", "a,5,3")
        materialise(found.project, prices, "run")
        yield found


def test_the_project_offers_it() -> None:
    assert isinstance((defs().resources or {})["pyspark"], LazyPySparkResource)


@pytest.mark.slow
def test_a_user_s_asset_reads_our_tables_on_our_engine(home: Home) -> None:
    path = home.project.context(SHOP).paths(prices).table
    engine = home.project.sessions.open()

    @dg.asset(deps=[table_key(prices)])
    def total(pyspark: LazyPySparkResource) -> dg.MaterializeResult:
        spark = pyspark.spark_session
        assert spark is not engine and pyspark.spark_session is spark
        rows = spark.read.format("delta").load(path)
        # ANSI is on in epochs; this asset asked for another setting, and that is its own.
        cast = spark.sql("SELECT CAST('x' AS INT)").collect()[0][0]
        return dg.MaterializeResult(metadata={"sum": rows.agg({"n": "sum"}).collect()[0][0], "cast": str(cast)})

    resource = WarmSparkResource(project=home.project, spark_config={"spark.sql.ansi.enabled": "false"})
    done = dg.materialize([total], resources={"pyspark": resource}, instance=home.instance)
    (event,) = done.asset_materializations_for_node("total")
    assert (event.metadata["sum"].value, event.metadata["cast"].value) == (7, "None")
    assert engine.conf.get("spark.sql.ansi.enabled") == "true"


def test_there_is_no_context_to_be_had(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="use spark_session"):
        _ = WarmSparkResource(project=project_in(tmp_path, settings)).spark_context
