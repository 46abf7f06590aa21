"""Dotted paths of the settings that experiments change or read, each in one place."""

from emcts.runs import offline
from emcts.runs.config import TOTAL

STEPS = TOTAL
OFFLINE, OFFLINE_STEPS = offline.RUN, offline.STEPS
EVALUATION_INTERVAL = "evaluation.every"
EVALUATION_EPISODES = "evaluation.episodes"
EVALUATION_STEPS = "evaluation.max_steps"
ENV_ARGUMENTS = "env.arguments"
TIME_LIMIT = "env.time_limit"
SIMULATIONS = "search.simulations"
WIDTH = "model.width"
CAPACITY = "replay.capacity"
BETA = "exploration.beta"
TARGET_BETA = "targets.beta"
UNCERTAINTY_WEIGHT = "loss.uncertainty_weight"
NOVELTY = "novelty.kind"
NOVELTY_INPUT = "novelty.input"
UNSEEN_VARIANCE = "novelty.unseen_variance"
NUM_EXPLOITING = "exploration.num_exploiting"
NUM_ENVS = "schedule.num_envs"
MODEL = "model.kind"

# of Deep Sea
SIZE = "env.size"
STOCHASTIC = "env.stochastic"

# of SUBLEQ
TASK = "env.task"
MAX_WORDS = "env.max_words"
WORD_SIZE = "env.word_size"
SIGNED = "env.signed"
UBE_DEPTH, BACKUP_EXPONENT = "targets.ube_depth", "search.backup_exponent"
