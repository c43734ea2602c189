"""Code shared by topics that are read and topics that are written."""
