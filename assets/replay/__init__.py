"""``rivermeet replay``: joins on hand-written records."""
