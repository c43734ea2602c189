"""A PostgreSQL server on this machine, for tests and demos."""
