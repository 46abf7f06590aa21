"""Training that knows no algorithm: the loop, seeds and devices, the replay, environments for each seed."""
