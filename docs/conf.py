"""Sphinx: Markdown pages, a quiet theme, nothing from the network."""

import re
from importlib.metadata import version as installed

project = "CHOP"
author = "the CHOP developers"
copyright = "the CHOP developers, Apache-2.0"
version = release = installed("chain-of-operators")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

# Headings get the anchors that code hosts give them, so one link serves both.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# The tables that `chop bench` writes are parts of a report and begin at its second level.
suppress_warnings = ["myst.header"]

# A name in single quotes of a docstring is a Python name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Coordinates")}
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

smartquotes = False  # "--option" in prose means two hyphens

html_theme = "furo"
html_theme_options = {
    "light_css_variables": {"code-font-size": "80%", "font-size--small": "90%"},
}
html_title = f"CHOP {release}"
html_static_path = ["_static"]
html_css_files = ["chop.css"]
html_copy_source = False
html_show_sphinx = False


def _plain_aliases(app, what, name, obj, options, signature, returns):
    """Aliases by their names in unions too, where Sphinx shows the object that stands for one."""
    return tuple(
        part and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", part) for part in (signature, returns)
    )


def setup(app):
    """What Sphinx calls first."""
    app.connect("autodoc-process-signature", _plain_aliases)
