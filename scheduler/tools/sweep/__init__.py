"""Replays recordings under many configurations and what-ifs, on several processors or machines.

`candidates` reads the configurations, `what_if` changes a recorded cluster, and `run` is one
replay. `executors` carries runs out, `directory` keeps their results, and `ranking` and `picture`
evaluate them. Runs are independent of each other.
"""
