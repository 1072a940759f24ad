"""Pieces of inline SVG: bars, labels that fit, and a figure with its words. Colours come from the page's style."""

from __future__ import annotations

from html import escape

from rich.cells import cell_len, set_cell_size

# In SVG units, which are pixels at full size.
MOST_WIDE = 960


def rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Nothing at all for an empty bar."""
    if width <= 0 or height <= 0:
        return ""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"/>'
    )


def label(kind: str, x: float, y: float, text: str) -> str:
    """Text centred on x."""
    return f'<text class="label {kind}" x="{number(x)}" y="{number(y)}">{text}</text>'


def fit(name: str, characters: float) -> str:
    """The name, cut with … where it is longer; wide characters count twice."""
    if cell_len(name) <= characters + 0.001:
        return name
    return set_cell_size(name, max(1, int(characters) - 1)).rstrip() + "…"


def titled(shown: str, name: str) -> str:
    """What is shown of a name, and all of it as a tooltip where that is more."""
    title = "" if shown == name else f"<title>{escape(name)}</title>"
    return f"{title}{escape(shown)}"


def figure(key: str, size: tuple[float, float], words: tuple[str, str], parts: list[str]) -> str:
    """A figure of a size (width, height) with its words (title, all numbers in a sentence); `key` is unique."""
    (width, height), (title, said) = size, words
    # Small screens scroll sideways rather than shrink the text beyond reading.
    least = width if width > MOST_WIDE else width * 0.7
    return (
        f'<svg class="{key}" viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-labelledby="{key}-title {key}-desc" style="min-width:{number(least)}px">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(said)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
