"""one-to-many: a table keyed by both sides."""
