"""Mutated files, arguments and texts: whatever is wrong with one ends in a line that says so, never in a traceback.

Every case is drawn from its number alone, so a case that fails can be run again.
"""

FILES, ARGUMENTS, TEXTS = 40_000, 30_000, 30_000  # cases of the long tests: 100,000 together
FEW_FILES, FEW_ARGUMENTS, FEW_TEXTS = 120, 100, 600  # of the others
