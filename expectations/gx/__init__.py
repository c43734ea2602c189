"""Great Expectations: the page of a run's verdicts."""
