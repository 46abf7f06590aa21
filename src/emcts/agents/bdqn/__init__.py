"""Bootstrapped DQN with randomised priors."""
