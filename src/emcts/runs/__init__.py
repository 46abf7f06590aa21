"""Runs: folders that training writes, that survive a crash, and that resume bit for bit."""
