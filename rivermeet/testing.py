"""A driver for tests of pipelines: what TopologyTestDriver is to Kafka Streams (docs/guides/testing.md)."""

from rivermeet.assets.testing.by_reference import Result
from rivermeet.assets.testing.driver import TestDriver
from rivermeet.assets.testing.expressions import DriverError

__all__ = ["DriverError", "Result", "TestDriver"]
