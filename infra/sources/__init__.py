"""Sources: read files, topics, Delta tables and databases into changelogs, each record once."""
