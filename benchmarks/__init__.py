"""Benchmarks: what an epoch costs, on seeded data whose answers are known. They measure and do not judge."""
