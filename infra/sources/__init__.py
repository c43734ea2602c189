"""Sources: files to records of a changelog, each file once."""
