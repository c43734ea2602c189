"""What lands in files of an epoch before Spark reads it, whatever it was read from."""
