"""`audit rule`: tables, JSON, the page, own rows, exit codes and wrong input."""

import json
import re
from fractions import Fraction as F
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from specproof.cli.main import main
from specproof.cli.standings import gap_text, tv_text
from specproof.rules import RULES

GOLDEN = ["--target", "1/2,1/3,1/6", "--draft", "1/6,1/3,1/2"]
VOID = {"meta"}


def run(capsys, *argv):
    code = main(["audit", "rule", *map(str, argv)])
    out = capsys.readouterr()
    return code, out.out, out.err


class Balanced(HTMLParser):
    """Every tag is closed in order, nothing is loaded, ids are unique."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags = [], [], []
        self.feed(text)
        assert not self.open
        assert len(set(self.ids)) == len(self.ids)
        assert not {"script", "link", "img", "iframe"} & set(self.tags)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Exit code, JSON, page and printed text of one short audit of all rules."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("all")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        argv = ["--all", "--instances", "4", "--json", folder / "a.json", "--html", folder / "a.html"]
        code = main(["audit", "rule", *map(str, argv)])
    return code, json.loads((folder / "a.json").read_text()), (folder / "a.html").read_text(), printed.getvalue()


def test_all_rules_are_in_table_json_and_page(everything):
    code, document, page, printed = everything
    assert code == 0
    assert [result["rule"] for result in document] == list(RULES)
    for name in RULES:
        assert re.search(rf"^ {name} ", printed, re.M)
        assert f'<th scope="row">{name}</th>' in page


def test_lossless_rules_are_exact_and_lossy_ones_labelled(everything):
    _, document, _, printed = everything
    verdicts = {result["rule"]: result["verdict"] for result in document}
    assert verdicts == {
        name: "EXACT" if rule.lossless else "UNSOUND" if name == "hsd_published" else "LOSSY"
        for name, rule in RULES.items()
    }
    for result in document:
        if result["verdict"] != "UNSOUND":  # too few instances for that one
            assert (result["tv"] <= 1e-12) == RULES[result["rule"]].lossless
        assert (result["slack"] is None) == RULES[result["rule"]].lossless
    assert printed.count("P(reject) + TV >= TV(target, draft) held") == 7


def test_json_has_tokens_and_gap_beside_the_best(everything):
    document = {result["rule"]: result for result in everything[1]}
    chains = {name: result["rounds"][0] for name, result in document.items() if result["rounds"]}
    assert chains["block"]["group"] == chains["rejection"]["group"] == "chains, iid"
    assert chains["block"]["gap"] == pytest.approx(0, abs=1e-12)
    assert chains["rejection"]["gap"] == pytest.approx(
        1 - chains["rejection"]["tokens"] / chains["block"]["tokens"], abs=1e-12
    )
    assert chains["block"]["optimum"] is True


def test_page_is_well_formed_and_shows_every_group(everything):
    _, document, page, _ = everything
    Balanced(page)
    figures = [ElementTree.fromstring(svg) for svg in re.findall(r'<svg class="rules.*?</svg>', page, re.S)]
    assert len(figures) == len({entry["group"] for result in document for entry in result["rounds"]})
    assert sum(len(result["rounds"]) for result in document) == sum(
        len([rect for rect in figure.iter("rect") if rect.get("class") == "pale"]) for figure in figures
    )


def test_bars_are_as_long_as_their_tokens_and_lossy_ones_hatched(capsys, tmp_path):
    argv = ["--all", *GOLDEN, "--tree", "chain:2", "--html", tmp_path / "own.html"]
    assert run(capsys, *argv)[0] == 0
    page = (tmp_path / "own.html").read_text()
    Balanced(page)
    (figure,) = (ElementTree.fromstring(svg) for svg in re.findall(r'<svg class="rules.*?</svg>', page, re.S))
    widths = {}
    bars = [rect for rect in figure.iter("rect") if rect.get("class") in ("pale", "kept", "short")]
    names = [text.text for text in figure.iter("text") if text.get("class") == "row" and text.text in RULES]
    for name, (first, rest) in zip(names, zip(bars[::2], bars[1::2], strict=True), strict=True):
        assert rest.get("class") == ("kept" if RULES[name].lossless else "short")
        widths[name] = float(rest.get("width")) / float(first.get("width"))
    assert widths["rejection"] == pytest.approx(10 / 9, abs=1e-4)
    assert widths["block"] == pytest.approx(7 / 6, abs=1e-4)
    assert "lenience, LOSSY: 2.5278, gap −16.67 %, TV 0.3322" in figure.find("desc").text


def test_own_rows_of_one_rule(capsys):
    code, out, _ = run(capsys, "block", *GOLDEN, "--tree", "chain:2")
    assert code == 0
    assert out.startswith("EXACT: block: 13/6 = 2.166667 tokens a round; TV of a token 0, of texts of 4 tokens")
    assert "token 0: comes out 0.500000000000, target 0.500000000000" in out


def test_own_rows_as_json_keep_fractions(capsys):
    code, out, _ = run(capsys, "lenience:1/2", *GOLDEN, "--json")
    document = json.loads(out)
    (result,) = document["results"]
    assert code == 0
    assert [F(mass) for mass in document["target"]] == [F(1, 2), F(1, 3), F(1, 6)]
    assert F(document["distance"]) == F(1, 3)
    assert (F(result["exact_tv"]), F(result["exact_tokens"])) == (F(3, 14), F(11, 6))
    assert (result["verdict"], result["ok"], result["lossless"]) == ("LOSSY", True, False)


def test_own_rows_take_trees_and_ways_of_drawing(capsys):
    argv = ["--all", *GOLDEN, "--tree=-1,-1,0", "--drawn", "without_replacement", "--json"]
    document = json.loads(run(capsys, *argv)[1])
    assert document["parents"] == [-1, -1, 0]
    assert {result["rule"] for result in document["results"]} == {
        name for name, rule in RULES.items() if "without_replacement" in rule.draws
    }


def test_a_rule_that_fails_makes_the_exit_code_1(capsys, monkeypatch):
    from dataclasses import replace

    monkeypatch.setitem(RULES, "spec_rl", replace(RULES["spec_rl"], lossless=True))
    code, out, _ = run(capsys, "spec_rl", "--instances", 5)
    assert code == 1
    assert out.startswith("NOT LOSSLESS: spec_rl")
    assert run(capsys, "spec_rl", *GOLDEN)[0] == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lenience:2"], "share=2 is not allowed"),
        (["block:1"], "has 1 values and 'block' takes 0"),
        (["auto"], "unknown rule 'auto'"),
        (["block", "--tree", "2x1"], "--tree is for your own rows"),
        (["block", "--drawn", "iid"], "--drawn is for your own rows"),
        (["block", "--target", "1"], "--draft is missing"),
        (["block", "--draft", "1"], "--target is missing"),
        (["block", "--target", "0.5,0.4", "--draft", "1,0"], "the target row sums to 9/10, not exactly 1"),
        (["block", "--target", "0.5,0.5", "--draft", "1"], "the target row has 2 entries and the draft row 1"),
        (["block", "--target", "x", "--draft", "1"], "target entry 1 is 'x', not a number"),
        (["block", *GOLDEN, "--tree", "bush"], "tree 'bush' is not understood"),
        (["block", *GOLDEN, "--tree", "2x1"], "rule 'block' does not take iid trees"),
        (["block", *GOLDEN, "--drawn", "hat"], "unknown way of drawing 'hat'; choose one of: iid, point"),
        (["hu", *GOLDEN, "--tree", "2"], "rule 'hu' does not take iid trees"),
        (["block", *GOLDEN, "--html", "/nowhere/a.html"], "cannot write --html /nowhere/a.html"),
        (["block", *GOLDEN, "--json", "/nowhere/a.json"], "cannot write --json /nowhere/a.json"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(capsys, argv, message):
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("gap", "text"), [(0.1234, "12.34 %"), (-1e-16, "0.00 %"), (-0.1, "−10.00 %")])
def test_gaps_in_percent(gap, text):
    assert gap_text(gap) == text


@pytest.mark.parametrize(("tv", "text"), [(0.0, "0.0000"), (2e-16, "2e-16"), (1 / 6, "0.1667")])
def test_distances(tv, text):
    assert tv_text(tv) == text


@pytest.mark.slow
def test_a_foreign_verifier_is_audited_by_its_name(capsys):
    """transformers accepts a token of probability 0 at a coin of exactly 0: edge scripts fail, the law holds."""
    assert main(["audit", "rule", "transformers", "--samples", "1000"]) == 1
    assert capsys.readouterr().out.startswith("EDGE COINS FAIL: transformers")


def test_flags_for_own_rules_are_refused_for_foreign_ones(capsys):
    assert main(["audit", "rule", "transformers", "--tree", "chain:2"]) == 2
    assert "--tree is for rules of this package" in capsys.readouterr().err
