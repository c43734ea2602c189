"""The platform as a Dagster resource, and what a run leaves to its end."""

from __future__ import annotations

import dagster as dg
from pydantic import PrivateAttr

from assets.epoch.platform import Platform, current


class PlatformResource(dg.ConfigurableResource):
    """Gives steps the platform of their process; its Spark session opens when a step first asks for it."""

    _shown: set[str] = PrivateAttr(default_factory=set)

    @property
    def shown(self) -> set[str]:
        """Nodes with nothing new whose verdicts this run has recorded."""
        return self._shown

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Bring the index of Data Docs up to date, once per run; no run fails by that."""
        try:
            current().write_index()
        except Exception:  # whatever a template or a disk may raise
            if context.log is not None:
                context.log.exception("the index of Data Docs is not up to date")

    @property
    def platform(self) -> Platform:
        """The platform of the process."""
        return current()
