"""Dotted paths of the settings that experiments change or read, each in one place."""

from emcts.runs.config import TOTAL

STEPS = TOTAL
EVALUATION_INTERVAL = "steps_between_evaluations"
EVALUATION_EPISODES = "evaluation_episodes"
SIMULATIONS = "simulations"
WIDTH = "width"
BETA = "beta"
NOVELTY = "novelty"
NOVELTY_INPUT = "hash_of"
MODEL = "model"

# of Deep Sea
SIZE = "size"
STOCHASTIC = "stochastic"

# of SUBLEQ
TASK = "task"
MAX_WORDS = "max_words"
WORD_SIZE = "word_size"
SIGNED = "signed"
