"""Runs: folders that training fills, that survive a crash, and from which it goes on bit for bit."""
