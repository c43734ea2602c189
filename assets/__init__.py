"""Dagster: declarations in, definitions out; and the command line."""
