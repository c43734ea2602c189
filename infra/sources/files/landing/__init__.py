"""Landing of text files: their lines are written to files of the epoch before Spark reads them."""
