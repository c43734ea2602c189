"""PostgreSQL: connections, what is there and what is wrong with it, its log, and a server of one's own for tests."""
