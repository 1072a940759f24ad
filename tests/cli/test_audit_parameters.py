"""`audit parameters` on a model folder: exit codes, JSON, wrong flags. The tiny part is cut short."""

import json

import pytest

from specproof.audit.parameters import run as running
from specproof.audit.parameters.tiny import compare_tiny
from specproof.cli.main import main


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """One setting on tiny models instead of all."""
    monkeypatch.setattr(running, "compare_tiny", lambda: compare_tiny([{"top_k": 2}]))
    monkeypatch.setattr("specproof.cli.audit_parameters.PROMPTS", ("a b c a b c", "d e"))


def test_our_engine_on_a_folder(capsys, model_folder, tmp_path):
    page = tmp_path / "page.html"
    argv = ["audit", "parameters", "--model", model_folder, "--dtype", "float64", "--json", "--html", str(page)]
    assert main(argv) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["verdict"], document["exit_code"]) == ("parameters", "EXACT", 0)
    rows = document["tables"][0]["rows"]
    assert len(rows) == 25  # three kinds of drafts, and 22 settings on the folder's model
    assert all(row[2] == "yes" for row in rows)
    assert page.exists()


def test_wrong_flags_are_named(capsys, model_folder):
    assert main(["audit", "parameters", "--engine", "vllm", "--tiny"]) == 2
    assert "unknown engine 'vllm'" in capsys.readouterr().err
    assert main(["audit", "parameters", "--tiny", "--model", model_folder]) == 2
    assert "--tiny loads no model" in capsys.readouterr().err
