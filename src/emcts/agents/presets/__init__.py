"""Presets: the numbers of each environment. The first preset of an agent is its default; `paper-*` are the paper's."""
