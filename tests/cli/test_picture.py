import re
from fractions import Fraction as F
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from specproof.audit.given import parse_row
from specproof.audit.worked import worked_example
from specproof.cli.bars import PLOT_HEIGHT
from specproof.cli.picture import page

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order; collects tags, ids and text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.words, self.links = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def html(target, draft, names=None):
    return page(worked_example(parse_row(target, "target"), parse_row(draft, "draft"), names))


def figures(text):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.S)]


def size(figure, kind, dimension):
    """Sizes of all bars of one class, in order."""
    return [float(rect.get(dimension)) for rect in figure.iter("rect") if rect.get("class") == kind]


CATS = "0.6,0.3,0.1", "0.4,0.5,0.1", ["cat", "dog", "fish"]
LONG = (
    "1/4,1/5,3/20,1/10,1/10,1/10,1/20,1/20",
    "1/10,3/10,1/20,1/5,1/10,0,1/5,1/20",
    ["the", "<script>alert(1)</script>", "a & b", 'quote"s', "日本語のとても長いトークン", "]]>", "in", "x" * 60],
)


@pytest.mark.parametrize("rows", [CATS, LONG, ("1", "1"), ("0,1", "1,0"), (",".join(["1/30"] * 30),) * 2])
def test_the_page_is_well_formed_and_self_contained(rows):
    text = html(*rows)
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert parser.links == []
    assert not {"script", "link", "img", "iframe"} & set(parser.tags)
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    for colour in re.findall(r"var\((--[a-z-]+)\)", text):
        assert text.count(f"{colour}: ") == 2, f"{colour} needs a light and a dark value"


@pytest.mark.parametrize("rows", [CATS, LONG])
def test_every_figure_has_a_title_and_its_numbers_in_words(rows):
    text = html(*rows)
    _, *shown = figures(text)
    assert len(shown) == 4
    for figure in shown:
        assert figure.get("role") == "img"
        title, description = (figure.find(tag) for tag in ("title", "desc"))
        assert figure.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert title.text
        assert all(name in description.text for name in rows[2])


def test_descriptions_state_the_exact_numbers():
    _, stacked, resample, *_ = figures(html(*CATS))
    assert stacked.find("desc").text.startswith("cat: draft 0.4, target 0.6 = kept 0.4 + redrawn 0.2; dog:")
    assert resample.find("desc").text == (
        "cat: 0.52 instead of 0.6; dog: 0.36 instead of 0.3; fish: 0.12 instead of 0.1. Total variation 0.08."
    )


def test_bars_of_cat_dog_fish_close_on_the_outline():
    figure = figures(html(*CATS))[1]
    per_mass = PLOT_HEIGHT / 0.6  # the axis ends at the highest bar
    assert size(figure, "outline", "height") == pytest.approx([0.6 * per_mass, 0.3 * per_mass, 0.1 * per_mass])
    assert size(figure, "kept", "height") == pytest.approx([0.4 * per_mass, 0.3 * per_mass, 0.1 * per_mass])
    assert size(figure, "redrawn", "height") == pytest.approx([0.2 * per_mass])
    assert size(figure, "rejected", "height") == pytest.approx([0.2 * per_mass])
    outline, kept, redrawn = (
        next(rect for rect in figure.iter("rect") if rect.get("class") == kind)
        for kind in ("outline", "kept", "redrawn")
    )
    for edge in ("x", "width"):
        assert outline.get(edge) == kept.get(edge) == redrawn.get(edge)
    assert redrawn.get("y") == outline.get("y")
    assert float(redrawn.get("y")) + float(redrawn.get("height")) == pytest.approx(float(kept.get("y")))


@pytest.mark.parametrize("rows", [CATS, LONG, ("1/3,1/3,1/3,0", "1/7,0,1/7,5/7")])
def test_heights_add_up_in_every_picture(rows):
    example = worked_example(parse_row(rows[0], "target"), parse_row(rows[1], "draft"))
    figure = figures(html(*rows))[1]
    inside = sum(size(figure, "kept", "height")) + sum(size(figure, "redrawn", "height"))
    assert inside == pytest.approx(sum(size(figure, "outline", "height")), abs=0.01)
    # What is rejected is as much as what is redrawn.
    assert sum(size(figure, "rejected", "height")) == pytest.approx(
        sum(size(figure, "redrawn", "height")), abs=0.01
    )
    assert sum(size(figure, "redrawn", "height")) / inside == pytest.approx(float(example.z), abs=1e-4)


@pytest.mark.parametrize("rows", [CATS, LONG])
def test_the_red_of_each_mistake_is_its_total_variation(rows):
    example = worked_example(parse_row(rows[0], "target"), parse_row(rows[1], "draft"))
    for figure, mistake in zip(figures(html(*rows))[2:], example.mistakes, strict=True):
        whole = sum(size(figure, "outline", "width"))
        for kind in ("over", "short"):
            assert sum(size(figure, kind, "width")) / whole == pytest.approx(float(mistake.tv), abs=1e-4)


def test_names_are_escaped_and_long_ones_cut_with_the_full_name_at_hand():
    text = html(*LONG)
    assert "<script>" not in text
    figure = figures(text)[1]
    labels = [label for label in figure.iter("text") if label.get("class") == "name"]
    assert [label.find("title") is None for label in labels] == [True, False, True, True, False, True, True, False]
    assert labels[7].find("title").text == "x" * 60
    assert labels[7].find("title").tail.endswith("x…")


@pytest.mark.parametrize("rows", [CATS, LONG])
def test_the_table_repeats_every_number_and_the_command_makes_the_page_again(rows):
    parser = Balanced()
    parser.feed(html(*rows))
    words = "".join(parser.words)
    assert all(name in parser.words for name in rows[2])
    target = ",".join(str(float(F(entry))) for entry in rows[0].split(","))
    assert f"--target {target} --draft" in words


def test_the_numbers_of_the_tutorial_are_on_the_page():
    parser = Balanced()
    parser.feed(html(*CATS))
    for number in ("0.8", "0.2", "TV 0.08", "TV 0.1", "TV 8/105 ≈0.0762", "0.52", "equal to the target"):
        assert number in parser.words
