"""What topics that are read and topics that are written have in common."""
