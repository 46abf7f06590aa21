"""Experiments: each a module with its sweep as data, its analysis and its plot."""
