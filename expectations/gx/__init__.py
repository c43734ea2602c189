"""Great Expectations: verdicts and Data Docs."""
