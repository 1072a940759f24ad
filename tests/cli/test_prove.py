"""`specproof prove` from its parser to its exit code."""

import argparse
import json
import subprocess
import sys

import pytest

from specproof.cli import prove
from specproof.errors import SpecproofError

OWN = """
from specproof.rules.spec.numbers import SpecLaw, excess, normalised


def right(number, target, drawn, tree, tokens):
    accept = number.minimum(1, target[0][tokens[0]] / drawn[0][tokens[0]])
    rest = normalised(number, excess(number, target[0], drawn[0]), target[0])
    return SpecLaw([1 - accept, accept], [rest, target[1]])


def wrong(number, target, drawn, tree, tokens):
    accept = number.minimum(1, target[0][tokens[0]] / drawn[0][tokens[0]])
    return SpecLaw([1 - accept, accept], [target[0], target[1]])
"""


def run(*arguments):
    parser = argparse.ArgumentParser()
    prove.add_parser(parser.add_subparsers())
    args = parser.parse_args(["prove", *arguments])
    return args.run(args)


@pytest.fixture
def own_rules(tmp_path, monkeypatch):
    (tmp_path / "own_rules_of_a_test.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield "own_rules_of_a_test"
    sys.modules.pop("own_rules_of_a_test", None)


def test_a_proof_exits_with_0(capsys):
    assert run("rejection", "--vocab", "3") == 0
    assert capsys.readouterr().out.startswith("PROVED: rejection, 3 tokens, shape chain:1, iid")


def test_a_rule_of_ones_own_is_proved_or_refuted(own_rules, capsys):
    assert run(f"{own_rules}:right") == 0
    assert run(f"{own_rules}:wrong") == 1
    proved, refuted, *table = capsys.readouterr().out.splitlines()
    assert proved.startswith("PROVED")
    assert refuted.startswith("COUNTEREXAMPLE")
    assert table[-1] == "total variation 1/4"


def test_json(own_rules, capsys):
    assert run(f"{own_rules}:wrong", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "COUNTEREXAMPLE"
    assert document["counterexample"]["tv"] == "1/4"
    assert document["replay"].startswith("specproof prove own_rules_of_a_test:wrong")


def test_too_little_time_exits_with_1(capsys):
    assert run("rejection", "--timeout", "1e-9") == 1
    assert capsys.readouterr().out.startswith("UNKNOWN: rejection")


@pytest.mark.parametrize(
    "arguments", [("rejection", "--timeout", "0"), ("nonsense",), ("rejection", "--shape", "x")]
)
def test_wrong_input_is_an_error(arguments):
    with pytest.raises(SpecproofError):
        run(*arguments)


def test_without_z3_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(SpecproofError, match=r"pip install 'specproof\[prove\]'"):
        run("rejection")


def test_the_parser_loads_neither_torch_nor_z3():
    code = (
        "import argparse, sys; from specproof.cli import prove; "
        "prove.add_parser(argparse.ArgumentParser().add_subparsers()); "
        "sys.exit(bool({'torch', 'z3', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
