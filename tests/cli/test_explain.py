import argparse
import json
import subprocess
import sys
from fractions import Fraction as F

import pytest

from specproof.audit.given import parse_row
from specproof.audit.worked import worked_example
from specproof.cli import explain
from specproof.cli.digits import decimal, equals, exact, short, show
from specproof.errors import SpecproofError

CATS = ["--target", "0.6,0.3,0.1", "--draft", "0.4,0.5,0.1", "--names", "cat,dog,fish"]


def command(*arguments):
    parser = argparse.ArgumentParser(prog="specproof")
    explain.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["explain", *arguments])
    return args.run(args)


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def cells(text, name):
    """Cells of all lines that begin with this name, table by table."""
    return [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [name]]


@pytest.mark.usefixtures("wide")
def test_tables_reproduce_cat_dog_fish(capsys):
    assert command(*CATS) == 0
    out = capsys.readouterr().out
    assert cells(out, "cat") == [
        ["0.6", "0.4", "1.5", "1", "0.4"],
        ["0.2", "1", "0.2", "0.6", "✓"],
        ["0.6", "0.52", "0.5", "13/21", "≈0.619"],
    ]
    assert cells(out, "dog")[0] == ["0.3", "0.5", "0.6", "0.6", "0.3"]
    assert cells(out, "sum") == [["1", "1", "0.8"], ["0.2", "1", "0.2", "1"]]
    assert cells(out, "TV") == [["0.08", "0.1", "8/105", "≈0.0762"]]
    assert "P(reject) = 0.2" in out
    assert "lossless" in out


@pytest.mark.parametrize(("columns", "most"), [("20", 80), ("80", 80), ("500", 100)])
def test_tables_stay_between_80_and_100_columns_and_on_one_screen(capsys, monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", columns)
    command(*CATS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= most
    assert len(lines) <= 36


@pytest.mark.usefixtures("wide")
def test_edges_are_told_in_words(capsys):
    command("--target", "0.5,0.5", "--draft", "0.5,0.5")
    assert "Nothing is ever rejected: P(reject) = Z = 0" in capsys.readouterr().out
    command("--target", "0,1", "--draft", "1,0")
    out = capsys.readouterr().out
    assert "none is ever kept" in out
    assert "never proposes" in out
    command("--target", "1", "--draft", "1")
    assert "token 0" in capsys.readouterr().out


@pytest.mark.usefixtures("wide")
def test_a_name_that_looks_like_markup_is_printed_as_it_is(capsys):
    command("--target", "0.5,0.5", "--draft", "0.25,0.75", "--names", "[red]x, [/]")
    out = capsys.readouterr().out
    assert len(cells(out, "[red]x")) == len(cells(out, "[/]")) == 3


def test_json_has_every_number_exactly_and_as_a_float(capsys):
    assert command(*CATS, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    example = worked_example(parse_row("0.6,0.3,0.1", "target"), parse_row("0.4,0.5,0.1", "draft"))
    assert found["names"] == ["cat", "dog", "fish"]
    for name in (
        "target",
        "draft",
        "ratio",
        "accept",
        "minimum",
        "excess",
        "residual",
        "accepted",
        "redrawn",
        "recovered",
    ):
        row = getattr(example, name)
        assert tuple(map(F, found[name]["exact"])) == row
        assert found[name]["float"] == [float(value) for value in row]
    for name in ("reject", "z", "tv"):
        assert found[name] == {"exact": "1/5", "float": 0.2}
    assert found["ok"] is True
    assert [(m["name"], m["tv"]["exact"]) for m in found["mistakes"]] == [
        ("resample_target", "2/25"),
        ("absolute_difference", "1/10"),
        ("temperature", "8/105"),
    ]
    assert found["mistakes"][0]["law"]["exact"] == ["13/25", "9/25", "3/25"]
    # What is printed is enough to run it again.
    again = worked_example(*(tuple(map(F, found[row]["exact"])) for row in ("target", "draft")), found["names"])
    assert explain.as_dict(again) == found


def test_json_has_null_where_there_is_no_number(capsys):
    command("--target", "0.5,0.5,0", "--draft", "0.5,0.5,0", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["residual"] is None
    assert found["ratio"] == {"exact": ["1", "1", None], "float": [1.0, 1.0, None]}


def test_html_is_written_beside_the_output(tmp_path, capsys):
    file = tmp_path / "picture.html"
    command(*CATS, "--html", str(file))
    assert "picture.html" in capsys.readouterr().out.replace("\n", "")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    command(*CATS, "--json", "--html", str(file))
    assert json.loads(capsys.readouterr().out)["ok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "0.6,0.3", "--draft", "0.5,0.5"], "the target row sums to 9/10"),
        (["--target", "0.5,0.5", "--draft=-0.5,1.5"], "draft entry 1 is -1/2"),
        (["--target", "0.5,0.5", "--draft", "1"], "the target row has 2 entries and the draft row 1"),
        (["--target", "0.5,0.5", "--draft", "0.5,0.5", "--names", "a"], "1 names for 2 tokens"),
        (["--target", "0.5,half", "--draft", "0.5,0.5"], "target entry 2 is 'half', not a number"),
        (["--target", "", "--draft", "0.5,0.5"], "the target row is empty"),
        (["--target", "1", "--draft", "1", "--names", ""], "token name '' cannot be shown"),
    ],
)
def test_bad_input_is_refused_before_anything_is_printed(capsys, arguments, message):
    with pytest.raises(SpecproofError, match=message):
        command(*arguments)
    assert capsys.readouterr().out == ""


def test_a_file_that_cannot_be_written_is_refused(tmp_path, capsys):
    with pytest.raises(SpecproofError, match=r"cannot write --html .*: No such file or directory; name a file"):
        command(*CATS, "--html", str(tmp_path / "missing" / "picture.html"))
    assert capsys.readouterr().out == ""


def test_the_command_loads_no_torch(tmp_path):
    code = (
        "import argparse, sys\n"
        "from specproof.cli import explain\n"
        "parser = argparse.ArgumentParser()\n"
        "explain.add_parser(parser.add_subparsers())\n"
        f"args = parser.parse_args(['explain', *{CATS!r}, '--html', {str(tmp_path / 'x.html')!r}])\n"
        "assert args.run(args) == 0\n"
        "assert not {'torch', 'numpy', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("value", "shown", "label", "input_again"),
    [
        (F(3, 5), "0.6", "0.6", "0.6"),
        (F(0), "0", "0", "0"),
        (F(31, 2), "15.5", "15.5", "15.5"),
        (F(1, 128), "0.0078125", "0.0078", "0.0078125"),
        (F(8, 105), "8/105 ≈0.0762", "0.076", "8/105"),
        (F(4, 21), "4/21 ≈0.190", "0.190", "4/21"),
        (F(123456, 654321), "≈0.1887", "0.189", "41152/218107"),
        (F(2000, 7), "2000/7 ≈286", "286", "2000/7"),
    ],
)
def test_numbers_are_decimals_where_they_end_else_fractions(value, shown, label, input_again):
    assert (show(value), short(value), exact(value)) == (shown, label, input_again)
    assert F(exact(value)) == value


def test_numbers_in_sentences():
    assert equals("Z", F(1, 5)) == "Z = 0.2"
    assert equals("Z", F(1, 3)) == "Z = 1/3 ≈0.333"
    assert equals("Z", F(123456, 654321)) == "Z ≈0.1887"
    assert show(None) == "–"
    assert decimal(F(-1, 4)) == "-0.25"
