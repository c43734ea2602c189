"""A driver for tests of pipelines: records in, rows out, by the reference joins or by the engine."""
