"""SVG pictures stand in the page itself, so that they follow its light and dark."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class Inline(SphinxPostTransform):
    """Replaces each SVG image by its markup, named by the image's alternative text."""

    default_priority = 5  # before images are collected as files
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Go through the images of one page."""
        for image in list(self.document.findall(nodes.image)):
            if image["uri"].endswith(".svg"):
                path = Path(self.env.srcdir) / image["uri"]
                markup = path.read_text(encoding="utf-8").replace("<svg ", '<svg class="picture" ', 1)
                image.replace_self(nodes.raw("", f"<figure>{markup}</figure>", format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform."""
    app.add_post_transform(Inline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
