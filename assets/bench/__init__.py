"""``rivermeet bench``: the common workloads, measured."""
