"""The two traversals of a simulation: from the root down to a leaf, and the backup from the leaf to the root.

`backend` chooses between `plain` (JAX, anywhere) and `pallas` (kernels for NVIDIA GPUs). Both run the same selection
rules, functions of one node's statistics, which `rules` defines.
"""
