"""MuZero's learned models: abstracted and anchored latent states, and their local uncertainty."""
