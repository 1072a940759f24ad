"""The reference pages, read off the tables, the parameters and the parsers when the site is built.

A page of docs/reference says where with a comment like `<!-- made: rules -->`. No torch is loaded: what drafters
and rules say of themselves is read from their source text.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from specproof.cli.main import build_parser
from specproof.drafters import DRAFTERS
from specproof.rules import RULES
from specproof.rules.rule import SHAPES, Rule
from specproof.types import Drawn, SamplingParams

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PLACE = re.compile(r"<!-- made: (\w+) -->")


def rules() -> str:
    """Every rule of RULES: what it claims, what it takes, what configures it."""
    parts = [
        _table(
            ("rule", "law", "drafts", "drawn"),
            [(f"[`{r.name}`](#{_slug(r.name)})", _law(r), _shapes(r), ", ".join(r.draws)) for r in RULES.values()],
        )
    ]
    for rule in RULES.values():
        lines = [f"## {rule.name}", _told(f"specproof.rules.{rule.name}", rule.name), ""]
        lines += [f"- law: {_law(rule)}"]
        lines += [f"- drafts: {_shapes(rule)}; drawn {', '.join(rule.draws)}", f"- from: {rule.paper}"]
        if rule.dominates:
            lines += [f"- never accepts less on average than: {', '.join(rule.dominates)}"]
        if rule.coupled:
            lines += ["- shares its noise with the drafter where that can be done"]
        for number in rule.parameters:
            lines += [f"- number `{number.name}`: {number.allowed}, by default {number.default:g}"]
        if rule.parameters:
            form = ",".join(number.name.upper() for number in rule.parameters)
            lines += [f"- written: `{rule.name}` or `{rule.name}:{form}`"]
        if rule.lossless:
            lines += [f"- [proof](../rule-proofs.md#{_slug(rule.name)})"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def drafters() -> str:
    """Every drafter of DRAFTERS, in the words of its class."""
    parts = []
    for name, place in DRAFTERS.items():
        module, _, kind = place.partition(":")
        fixed = _attribute(module, kind, "drawn")
        drawn = f"`{fixed}`" if fixed else f"chosen when it is made: {', '.join(get_args(Drawn))}"
        path = place.replace(":", ".")
        parts.append(f"## {name}\n\n{_told(module, kind)}\n\n- drawn: {drawn}\n- class: `{path}`")
    return "\n\n".join(parts)


def parameters() -> str:
    """Every field of SamplingParams, and its flag on the command line."""
    rows = []
    for field in fields(SamplingParams):
        made = {} if field.default_factory is MISSING else field.default_factory()
        default = made if field.default is MISSING else field.default
        told = field.metadata.get("help", "functions over (context, logits); from Python only")
        flag = f"`--{field.name.replace('_', '-')}`" if "help" in field.metadata else ""
        rows.append((f"`{field.name}`", f"`{default!r}`", flag, told))
    return _table(("parameter", "default", "flag", "meaning"), rows)


def commands() -> str:
    """Every command with its flags, from the parsers themselves."""
    return "\n\n".join(_command(parser) for parser in parsers(build_parser()))


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and those of its sub-commands, depth first."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in dict.fromkeys(action.choices.values()):
                yield from parsers(below)


MADE: dict[str, Callable[[], str]] = {
    "rules": rules,
    "drafters": drafters,
    "parameters": parameters,
    "commands": commands,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill the places in while pages are read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fill(_: Sphinx | None, __: str, source: list[str]) -> None:
    """Put what is made into the places of a page; `source` holds its text."""
    source[0] = _PLACE.sub(lambda place: MADE[place[1]](), source[0])


def _law(rule: Rule) -> str:
    if rule.lossless:
        return "lossless"
    return {"LOSSY": "lossy", "UNSOUND": "unsound"}[rule.claim] + ("" if rule.usable else ", for audits only")


def _shapes(rule: Rule) -> str:
    return f"chains, {SHAPES[rule.shape][0]}" if rule.trees else "chains"


def _command(parser: argparse.ArgumentParser) -> str:
    parts = [f"## {parser.prog}", _escaped(parser.description or "")]
    for group in parser._action_groups:
        rows = [_flag(action) for action in group._group_actions]
        if rows:
            parts.append(_table((group.title or "", "meaning"), rows))
    return "\n\n".join(parts)


def _flag(action: argparse.Action) -> tuple[str, str]:
    if isinstance(action, argparse._SubParsersAction):
        links = [f"[`{name}`](#{_slug(parser.prog)})" for name, parser in action.choices.items()]
        return (f"`{action.metavar}`", ", ".join(links))
    value = action.metavar or ("" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}")
    if not value and action.nargs != 0:
        value = action.dest.upper()
    names = ", ".join(action.option_strings)
    shown = " ".join(part for part in (names, str(value) if action.nargs != 0 else "") if part)
    text = (action.help or "").replace("%(default)s", str(action.default))
    return (f"`{shown}`", _escaped(text))


def _told(module: str, name: str) -> str:
    """The docstring's text up to its first heading (Args, Source, ...), as Markdown."""
    text = ast.get_docstring(_definition(module, name)) or ""
    return _escaped(re.split(r"\n(?=(?:Args|Attributes|Raises|Returns):|Source)", text)[0].strip())


def _attribute(module: str, kind: str, name: str) -> str | None:
    """The value that a class gives to an attribute in its body, if it does."""
    for line in getattr(_definition(module, kind), "body", []):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == name:
            return str(line.value.value) if isinstance(line.value, ast.Constant) else None
    return None


def _definition(module: str, name: str) -> Any:
    found = find_spec(module)
    assert found is not None, f"no module {module}"
    assert found.origin is not None, f"{module} has no file"
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    return next(node for node in tree.body if getattr(node, "name", None) == name)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines: list[Sequence[str]] = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _escaped(text: str) -> str:
    """Plain text as Markdown that says the same; code in backquotes stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*_<>\[\]$])", r"\\\1", p) for p in parts)


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-")
