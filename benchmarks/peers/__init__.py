"""What users would pick instead, run over the same records; each in a process of its own that prints one JSON line."""
