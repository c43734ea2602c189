"""The warm engine's session as `dagster_pyspark` has it, for assets that a user adds to this project.

    @dg.asset(deps=[dg.AssetKey(["flights", "fleet_table"])])
    def seats(pyspark: LazyPySparkResource) -> dg.MaterializeResult:
        fleet = pyspark.spark_session.read.format("delta").load(".rivermeet/tables/flights/fleet/table")
        return dg.MaterializeResult(metadata={"seats": fleet.agg({"seats": "sum"}).collect()[0][0]})

Why a class of its own: ``docs/decisions/dagster-resource.md``. Held by ``tests/assets/defs/test_spark.py``.
"""

from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from rivermeet.assets.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WarmSparkResource(LazyPySparkResource):
    """Gives a session on the engine that epochs run on, opened when a step first asks for it.

    Attributes
    ----------
    project
        As of `ProjectResource`.
    spark_config
        Settings of the session. It is one of its own, so that no setting of a user's asset reaches an epoch.
    """

    project: dg.ResourceDependency[Project]
    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> "SparkSession":
        """The session; the same one until the run ends."""
        return self.get_session()

    def get_session(self) -> "SparkSession":
        """The session, on the engine that the settings name: the warm one, a remote one, or one in this process."""
        if self._spark_session is None:
            from rivermeet.infra.engine.session import new_session

            self._spark_session = new_session(self.project.sessions.open())
            for name, value in self.spark_config.items():
                self._spark_session.conf.set(name, value)
        return self._spark_session

    @property
    def spark_context(self) -> Any:
        """Not there: the engine is used through Spark Connect."""
        raise AttributeError("Spark Connect has no SparkContext: use spark_session")

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Give the session back."""
        if self._spark_session is not None:
            from rivermeet.infra.engine.session import close

            close(self._spark_session)
            self._spark_session = None
