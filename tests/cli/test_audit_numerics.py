"""`audit numerics` on a model folder: table, verdict, exit codes, JSON, page, wrong flags."""

import json

import pytest

from specproof.cli.audit_numerics import numbers
from specproof.cli.main import main


@pytest.fixture
def audit(capsys, model_folder):
    def run(*argv):
        sizes = ["--prompt", "a b c", "--prompt", "d", "--tokens", "12", "--length", "3", "--width", "1,3"]
        code = main(["audit", "numerics", "--model", model_folder, *sizes, *map(str, argv)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_ledger_and_its_verdict(audit, tmp_path):
    page = tmp_path / "ledger.html"
    code, out, err = audit("--dtype", "bfloat16", "--kv", "model,int8", "--html", page)
    assert code == 0, out
    assert "rows in bfloat16 against the float32 reference, 12 positions" in out
    assert "rows in bfloat16 against plain decoding, 12 positions" in out
    assert ": bfloat16 moves a row of plain decoding by TV 0.0" in out
    assert "width 3, batch 4, keys and values in int8" in out
    assert "12 positions in 4 texts" in err
    html = page.read_text()
    assert html.count("<svg") == 2  # the hatches and the figure
    assert "LOSSLESS WITHIN NUMERICS" in html


def test_json_holds_every_position(audit):
    code, out, _ = audit("--dtype", "float64", "--batch", 2, "--json")
    document = json.loads(out)
    assert (code, document["verdict"], document["plan"]["names"][2]) == (0, "EXACT", "float64")
    assert [(s["batch"], s["width"]) for s in document["settings"]] == [(1, 1), (2, 1), (2, 3)]
    assert len(document["settings"][2]["against_reference"]["per_position"]["gap"]) == 12
    assert document["replay"].startswith("specproof")


def test_another_reference_is_no_baseline(audit, draft_folder):
    code, out, _ = audit("--reference-model", draft_folder)
    assert code == 3
    assert "BASELINE NOT REPRODUCIBLE: " in out


@pytest.mark.parametrize(
    ("argv", "match"),
    [
        (["--kv", "int4"], "unknown kv 'int4'"),
        (["--batch", "5"], "batch 5 needs as many texts, and 12 tokens are 4 of 3"),
        (["--max-tokens", "7"], "--max-tokens does nothing"),
        (["--bad-words", "a"], "--bad-words is not honoured"),
        (["--width", "100"], "widths=(100,) is not allowed"),
    ],
)
def test_wrong_flags_are_named(audit, argv, match):
    code, _, err = audit(*argv)
    assert code == 2
    assert match in err


def test_lists_of_numbers():
    assert numbers("1,5..7") == (1, 5, 6, 7)
    with pytest.raises(Exception, match="is no list"):
        numbers("1-5")
