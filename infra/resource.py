"""The engine as a Dagster resource."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dagster import ConfigurableResource

from infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EngineResource(ConfigurableResource):
    """Gives assets the settings and, when first asked for it, the Spark session.

    A run that finds nothing new never asks, and so starts no engine. The session stays open for
    the other assets of the run; the process's end closes it.
    """

    @cached_property
    def settings(self) -> Settings:
        """The settings of the process."""
        return Settings.from_env()

    @property
    def spark(self) -> SparkSession:
        """The session of the process, opened on first use."""
        from infra.session import session

        return session(self.settings)
