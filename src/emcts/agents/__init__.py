"""Agents that learn: acting, replay, targets, losses, the training loop, and the agents composed of them."""
