"""Agents that plan by Monte Carlo tree search: acting, targets, losses, updates, and the table of variants."""
