"""Configuration of the site: `make docs` builds it into build/docs."""

import logging
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs" / "_ext")]
# The kernels of notebooks inherit both: the package of this checkout, on the CPU.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A profile of their own: that of whoever builds the site may differ, and kernels warn that they listen on a port.
PROFILE = ROOT / "build" / "ipython" / "profile_default"
PROFILE.mkdir(parents=True, exist_ok=True)
(PROFILE / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
os.environ["IPYTHONDIR"] = str(PROFILE.parent)

project = "emcts"
copyright = "the authors of emcts"
extensions = ["myst_nb", "sphinx_copybutton", "mathml", "generated", "outside"]
exclude_patterns = ["_ext", "**.ipynb_checkpoints"]
# A list of pages by their names, in the paper's order, may name a page that is not written yet.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda entry: getattr(entry, "subtype", "") != "empty_glob"
)

myst_enable_extensions = ["deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4

nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_in_temp = True
nb_execution_timeout = 300  # of a cell, for machines that do other work too
nb_execution_raise_on_error = True
nb_execution_show_tb = True

smartquotes = False  # they would turn the hyphens of options into dashes

python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "emcts"
html_show_sourcelink = False
copybutton_prompt_text = "$ "
