"""Sphinx settings. `make docs` builds the site with warnings as errors."""

project = "Torch-Spyre"
copyright = "The Torch-Spyre authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Torch-Spyre"
myst_heading_anchors = 3
