"""Sphinx settings of the site. scripts/docs.sh puts together what it is made from and builds it."""

import os
import re
import sys

sys.path.insert(0, os.environ["CIRCE_PYTHON"])

project = "circe"
author = "the circe authors"
release = os.environ["CIRCE_VERSION"]
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = []
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
breathe_projects = {"circe": os.environ["CIRCE_DOXYGEN"]}
breathe_default_project = "circe"
breathe_domain_by_extension = {"h": "c"}
autodoc_mock_imports = ["torch", "sklearn", "causallearn", "jax"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
html_theme = "furo"
html_title = f"circe {release}"
html_show_sourcelink = False
html_copy_source = False

SIGNS = re.compile(r"``.*?``|`[^`]*`|>>>.*|[|*]|(?<=\w)_(?!\w)")


def escape(app, what, name, obj, options, lines):
    """Docstrings are plain text: signs that reStructuredText would read as markup are shown as they are."""
    text = "\n".join(lines)
    lines[:] = SIGNS.sub(lambda match: match[0] if len(match[0]) > 1 else "\\" + match[0], text).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", escape, priority=1)
