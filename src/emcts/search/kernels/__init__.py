"""Pallas kernels for NVIDIA GPUs: one walks down, one walks up, a program for each batch element.

In plain JAX each level of a walk costs kernel launches and a round trip to the host; here a walk is one launch.
"""

from emcts.search.kernels.ascend import ascend
from emcts.search.kernels.descend import descend

__all__ = ("ascend", "descend")
