"""Sweeps as data: the specs of runs, where they come from, and the plan and progress of training them."""
