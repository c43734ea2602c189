"""Spark: the warm engine, sessions, settings, jars, and frames that are computed once."""
