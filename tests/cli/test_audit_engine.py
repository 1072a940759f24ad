"""`audit engine` on a model folder: verdicts, exit codes, JSON, flags that do nothing."""

import json

import pytest

from specproof.cli.main import main


@pytest.fixture
def audit(capsys, model_folder, draft_folder):
    """Run a short audit of the tiny model; returns exit code, output and errors."""

    def run(*argv):
        models = ["--model", model_folder, "--prompt", "a b c", "--prompt", "d e", "--max-tokens", 16]
        sizes = ["--tokens", 400, "--detect", 0.3, "--seed", 1, "--prefixes", 3, "--draws", 16]
        code = main(["audit", "engine", *map(str, [*models, *sizes, *argv])])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.draft = ["--drafter", "model", "--draft-model", draft_folder]
    return run


def test_a_correct_engine_is_lossless(audit, tmp_path):
    file = tmp_path / "answer.html"
    code, out, err = audit(*audit.draft, "--temperature", 0.9, "--html", file)
    assert code == 0, out
    html = file.read_text()
    assert "LOSSLESS: audit engine" in html
    assert html.count('class="panel') == 3
    assert f"page: {file}" in err
    assert out.startswith("LOSSLESS: engine with drafter ModelDrafter, rule block: no fault was seen")
    assert "false alarms <= 0.001" in out
    assert "again: specproof" in out
    assert err.startswith("plan ")


def test_a_lossy_rule_is_convicted(audit):
    """Acceptance five times as likely as it should be."""
    code, out, _ = audit(*audit.draft, "--rule", "lenience:0.2", "--json", "--tokens", 3000)
    document = json.loads(out)
    assert code == 1
    assert document["verdict"] == "BIASED"
    assert not document["ok"]
    assert document["pvalue"] <= 1e-3
    assert document["tv"] > 0.02
    assert document["samples"] < 3000
    assert document["families"]
    assert document["panel"][0]["samples"] == 16
    assert document["plan"]["alpha"] == 1e-3


def test_greedy_text_is_exact(audit):
    code, out, _ = audit(*audit.draft, "--temperature", 0)
    assert code == 0, out
    assert out.startswith(("EXACT", "LOSSLESS WITHIN NUMERICS"))


def test_without_drafts_there_is_no_answer(audit):
    code, out, _ = audit("--drafter", "none")
    assert code == 3
    assert out.startswith("NOT EXERCISED: ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--exact", "--alpha", "0.1"], "--alpha does nothing with --exact"),
        (["--exact", "--temperature", "0.5"], "--temperature does nothing with --exact"),
        (["--mutants"], "--mutants does nothing without --exact"),
        (["--architecture", "gpt2"], "--architecture does nothing without --exact"),
        (["--rule", "magic"], "unknown rule 'magic'"),
        (["--exact", "--rule", "auto"], "unknown rule 'auto'"),
        (["--rule", "hsd_published"], "for audits of rules only"),
        (["--alpha", "2"], "alpha=2.0"),
        (["--tokens", "0"], "tokens=0"),
        (["--max-tokens", "1000"], "length=1000"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(capsys, argv, message):
    assert main(["audit", "engine", *argv]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_the_default_model_is_lossless(capsys):
    """About five minutes: SmolLM2-135M with prompt lookup, 4,096 tokens."""
    assert main(["audit", "engine", "--threads", "2"]) == 0
    assert capsys.readouterr().out.startswith("LOSSLESS")
