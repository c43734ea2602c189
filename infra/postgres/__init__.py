"""PostgreSQL: connections, the state of server and tables and their problems, the log, and a server for tests."""
