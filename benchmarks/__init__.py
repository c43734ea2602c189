"""Benchmarks: what an epoch costs, on seeded data whose answers are known. They measure and do not judge.

An epoch is run and timed by ``assets/bench``, which is `rivermeet bench`. Here are data, answers, peers and the page.
"""
