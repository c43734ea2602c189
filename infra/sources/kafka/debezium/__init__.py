"""Debezium's envelope: decodes changes of rows of a database."""
