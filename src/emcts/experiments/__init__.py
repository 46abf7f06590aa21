"""Experiments: sweeps of runs, the executors that train them, their analysis, and the figures of the paper."""
