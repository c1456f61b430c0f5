"""Sphinx settings of the site. scripts/docs.sh puts together what it is made from and builds it."""

import os
import re
import sys

from pygments.lexers.shell import BashLexer, ShellSessionBaseLexer

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
autodoc_mock_imports = ["torch", "sklearn", "causallearn", "jax", "tigramite"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
default_role = "literal"  # `x` in a docstring is code
smartquotes_action = "qe"  # -- is an option, not a dash
html_theme = "furo"
html_title = f"circe {release}"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

SIGNS = re.compile(r"``.*?``|`[^`]*`|>>>.*|[|*]|(?<=\w)_(?!\w)")


def escape(app, what, name, obj, options, lines):
    """Docstrings are plain text: indented lines are code, and signs that reStructuredText would read as markup are shown as they are."""
    out, code = [], False
    for i, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not code and i > 0 and not lines[i - 1].strip():
            out += ["::", ""]
            code = True
        elif line.strip() and not indented:
            code = False
        out.append(line if code else SIGNS.sub(lambda match: match[0] if len(match[0]) > 1 else "\\" + match[0], line))
    lines[:] = out


class Console(ShellSessionBaseLexer):
    """A console block. Only "$ " is a prompt: a line of output may start with another sign, such as %."""

    _innerLexerCls = BashLexer
    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")
    _ps2 = " "


def setup(app):
    app.add_lexer("console", Console)
    app.connect("autodoc-process-docstring", escape, priority=1)
