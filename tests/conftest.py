"""Every test runs with shapes checked at each function boundary, and with implicit rank promotion an error."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("emcts", "beartype.beartype")
