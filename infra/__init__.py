"""Effects: engine, files, Delta reads and commits, the epoch log, the protocol that makes an epoch happen once."""
