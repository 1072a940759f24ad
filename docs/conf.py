"""Settings of the documentation site (`make docs`): Sphinx, MyST for Markdown, Furo for looks.

Nothing is fetched when a page is read: fonts are the system's, formulas are MathML, pictures stand in the page.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_site"))

project = "specproof"
author = "The specproof developers"
project_copyright = author

extensions = ["myst_parser", "mathml", "pictures", "reference"]
exclude_patterns = ["_site", "pictures"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
highlight_language = "text"
# What is quoted from the program has two hyphens and straight quotes.
smartquotes = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "specproof"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# Furo's button would open an editor at a code host.
html_theme_options = {"top_of_page_buttons": []}


def setup(app: Any) -> None:
    """Pages say which language they are in, for voices and fonts."""

    def language(_: Any, page: str, __: str, context: dict[str, Any], ___: Any) -> None:
        context["language"] = "zh-Hans" if page.endswith("-zh") else "en"

    app.connect("html-page-context", language)
