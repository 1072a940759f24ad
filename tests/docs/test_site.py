"""The site without building it: every page is in the navigation, links resolve, the reference has everything."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path

import pytest

from specproof.cli.main import build_parser
from specproof.drafters import DRAFTERS
from specproof.rules import RULES, sound_rules
from specproof.types import SamplingParams

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PICTURES = sorted((DOCS / "pictures").iterdir())


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load("reference")


def filled(path):
    """The page as it is built: with what is made in its place."""
    source = [path.read_text(encoding="utf-8")]
    reference.fill(None, "", source)
    return source[0]


def prose(text):
    """A page without what stands between fences."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    found = set()
    for title in re.findall(r"^#{1,3} (.+)$", prose(filled(path)), flags=re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower().replace(" ", "-"))
    return found


def broken(path):
    """Links of a page within this repository that lead nowhere."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(filled(path))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = (path.parent / name).resolve() if name else path
        if not to.is_file() or (anchor and anchor not in anchors(to)):
            yield target


def test_every_page_is_in_the_navigation_once():
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), flags=re.DOTALL)
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    pages = [str(page.relative_to(DOCS).with_suffix("")) for page in PAGES]
    assert sorted(listed) == sorted(set(pages) - {"index"})


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda p: p.stem)
def test_links_resolve(path):
    assert list(broken(path)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One title\n[a](page.md#one-title) [b](page.md#another) [c](gone.md) [d](#one-title)\n")
    assert list(broken(page)) == ["page.md#another", "gone.md"]


def test_every_picture_is_shown_named_and_needs_nobody():
    shown = {link for page in PAGES for link in re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", page.read_text())}
    assert shown == {picture.name for picture in PICTURES}
    for picture in PICTURES:
        text = picture.read_text(encoding="utf-8")
        assert 'role="img"' in text
        assert "<title>" in text
        assert "prefers-color-scheme: dark" in text
        # Colours are variables, which follow light and dark.
        assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', text)) <= {
            "none",
            *(f"var(--{name})" for name in ("ink", "faint", "kept", "added", "lost", "paper")),
        }
        assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_every_lossless_rule_has_a_rule_a_claim_and_a_proof():
    text = (DOCS / "rule-proofs.md").read_text()
    parts = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## )", text, flags=re.MULTILINE | re.DOTALL))
    assert {rule.name for rule in sound_rules()} <= set(parts)
    for rule in sound_rules():
        for word in ("**Rule.**", "**Claim.**", "**Proof.**", r"\blacksquare"):
            assert word in parts[rule.name], f"{rule.name} has no {word}"


def test_the_reference_has_every_rule_and_what_configures_it():
    text = filled(DOCS / "reference" / "rules.md")
    for rule in RULES.values():
        part = text[text.index(f"\n## {rule.name}\n") :].split("\n## ")[1]
        assert rule.paper in part
        assert ("law: lossless" in part) == rule.lossless
        assert all(draw in part for draw in rule.draws)
        assert all(f"number `{number.name}`" in part for number in rule.parameters)


def test_the_reference_has_every_drafter():
    text = filled(DOCS / "reference" / "drafters.md")
    for name, place in DRAFTERS.items():
        assert f"\n## {name}\n" in text
        assert place.replace(":", ".") in text


def test_the_reference_has_every_parameter():
    text = filled(DOCS / "reference" / "parameters.md")
    for field in fields(SamplingParams):
        (row,) = re.findall(rf"^\| `{field.name}` \|.*$", text, flags=re.MULTILINE)
        assert field.metadata.get("help", "from Python only") in row


def test_the_reference_has_every_command_and_flag():
    text = filled(DOCS / "reference" / "commands.md")
    commands = list(reference.parsers(build_parser()))
    assert {"specproof", "specproof serve", "specproof audit rule"} <= {parser.prog for parser in commands}
    for parser in commands:
        part = text[text.index(f"\n## {parser.prog}\n") :].split("\n## ")[1]
        for action in parser._actions:
            for name in [*action.option_strings, action.metavar]:
                assert name is None or name in part, f"{parser.prog} lacks {name}"


def test_the_settings_name_no_address():
    for path in [DOCS / "conf.py", *DOCS.glob("_site/*.py"), *DOCS.glob("_site/static/*")]:
        assert "://" not in path.read_text(encoding="utf-8"), f"{path.name} would fetch something"
