"""Analysis of the runs of an experiment: tables per seed, curves, first times and statistical tests."""
