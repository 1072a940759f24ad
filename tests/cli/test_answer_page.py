"""The page and the document of an answer: all figures, nothing loaded, nothing unescaped, numbers finite."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from specproof.audit.answer import Answer, Bars, Check, Family, Table, Track, Verdict, split_alpha
from specproof.cli.answer_page import number, page
from specproof.cli.main import main
from specproof.errors import SpecproofError

ANSWER = Answer(
    kind="engine",
    subject="engine with drafter <D>, rule R",
    verdict=Verdict.BIASED,
    reason="best fit: a & b, TV about 0.100",
    alpha=1e-3,
    plan={"tokens": 4096, "setting": {"rule": "<R>"}},
    digest="0123456789abcdef",
    pvalue=2e-5,
    samples=576,
    draws=256,
    tv=0.1,
    power=float("inf"),
    acceptance=0.64,
    tests=(Check("bets", 1e-5, 5e-4, 576), Check("panel", 0.5, 3e-4, 256)),
    tracks=(Track("all bets", (0, 100, 576), (0.0, 3.0, float("inf"))), Track("A1 <x>", (0, 576), (0.0, -30.0))),
    barrier=7.6,
    panel=(Bars("'</code>", ("<b>", "all others"), (0.7, 0.3), (0.5, 0.5), 64),),
    families=(Family("a & b", 0.1, float("inf"), 0.05, "bets"),),
    ledger={"positions": 96, "largest": 1e-6},
    tables=(Table("Control", "Words.", ("what", "p-value"), (("speculation <off>", "0.5"),)),),
    notes=("a <note>",),
    replay="specproof audit engine --seed 1",
    versions={"python": "3"},
)


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    VOID = ("meta", "rect", "line", "polyline")

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_holds_every_figure_and_loads_nothing():
    html = page(ANSWER)
    shown = (
        "BIASED: audit engine",
        "2.0e-05",
        "576",
        "0.64",
        "convicts",
        "no alarm",
        "all bets",
        "0123456789abcdef",
    )
    for words in (*shown, "specproof audit engine --seed 1", "python 3", "1.0e-06", "∞", "a &amp; b", "96"):
        assert words in html, words
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)|@import|<script", html)
    for raw in ("<D>", "<R>", "<x>", "<note>", "<b>", "<off>"):
        assert raw not in html
    assert "nan" not in html.lower()
    checker = Balanced()
    checker.feed(html)
    assert checker.open == []


def test_a_page_without_evidence_is_a_page_too():
    bare = Answer("endpoint", "a server", Verdict.NOT_EXERCISED, "nothing was drafted", 1e-3, {}, "abc")
    html = page(bare)
    assert "NOT EXERCISED: audit endpoint" in html
    assert "<svg class" not in html
    assert (bare.ok, bare.exit_code) == (False, 3)


def test_the_document_is_json_without_infinite_numbers():
    document = json.loads(json.dumps(ANSWER.document(), allow_nan=False))
    assert document["verdict"] == "BIASED"
    assert (document["ok"], document["exit_code"]) == (False, 1)
    assert document["tests"][0] == {"name": "bets", "pvalue": 1e-5, "level": 5e-4, "samples": 576}
    assert document["tracks"][0]["log_e"] == [0.0, 3.0, None]
    assert document["power"] is None
    assert document["families"][0]["needed"] is None
    assert set(document) >= {"plan", "digest", "alpha", "panel", "ledger", "tables", "versions", "replay"}


def test_words_of_an_answer():
    assert str(ANSWER).startswith("BIASED: engine with drafter <D>, rule R: best fit: a & b")
    assert "false alarms <= 0.001; 576 tokens, 256 draws" in str(ANSWER)
    assert "again: specproof audit engine --seed 1" in str(replace(ANSWER, notes=()))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (float("inf"), "∞"), (0, "0"), (1234.5, "1,234"), (0.01234, "0.0123"), (1e-5, "1.0e-05")],
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_alpha_is_split_and_never_more_than_there_is():
    assert split_alpha(0.01, {"a": 0.25, "b": 0.75}) == pytest.approx({"a": 0.0025, "b": 0.0075})
    for shares in ({"a": 0.6, "b": 0.6}, {"a": -0.1}):
        with pytest.raises(SpecproofError, match="sum to 1 at most"):
            split_alpha(0.01, shares)


def test_a_page_without_a_place_is_refused_before_anything_is_run(capsys):
    assert main(["audit", "engine", "--html", "/no/such/folder/page.html"]) == 2
    assert "--html /no/such/folder/page.html: there is no such folder" in capsys.readouterr().err
