"""Epistemic Monte Carlo tree search. Imports nothing of emcts but `types`, so it can be lifted out as a library."""
