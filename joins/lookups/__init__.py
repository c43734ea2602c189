"""A stream looks up a table, or a global table."""
