"""Sphinx's configuration: Markdown pages (MyST), the reference from numpydoc docstrings, Furo's looks."""

import re
from typing import Any

from sphinx.application import Sphinx

from banditmips import __version__

project = "banditmips"
author = "the banditmips contributors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]

# Markdown: headings are targets of links, as they are where the same pages are read in a repository.
myst_heading_anchors = 3

# index.md names some pages that are still being written. (A page that is misspelt there is in no toctree: an error.)
suppress_warnings = ["toc.not_readable"]

# Reference: `name` in a docstring links to what has that name; members are listed where they are documented.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = True
maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"banditmips {version}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "tango"


def as_written(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write ``|q|`` for an absolute value and ``name_`` as scikit-learn does; neither is a reference."""
    for number, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", re.sub(r"\|(\w+)\|", r"\\|\1\\|", part)) for part in parts[::2]]
        lines[number] = "``".join(parts)


def setup(app: Sphinx) -> None:
    """Register what is ours."""
    app.connect("autodoc-process-docstring", as_written)
