"""The platform as a Dagster resource."""

from __future__ import annotations

import dagster as dg

from assets.platform import Platform, current


class PlatformResource(dg.ConfigurableResource):
    """Gives steps the platform of their process; its Spark session opens when a step first asks for it."""

    @property
    def platform(self) -> Platform:
        """The platform of the process."""
        return current()
