"""The tasks of the built-in environments."""
