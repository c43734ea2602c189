from __future__ import annotations

from tests.infra.sources.kafka.conftest import broker, town

__all__ = ["broker", "town"]
