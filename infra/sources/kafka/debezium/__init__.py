"""Debezium's envelope: what a change of a row in a database becomes."""
