"""The command line: what it prints, and one line with exit code 2 for every wrong input."""

import json

import pytest

from specproof.cli.main import main


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def generate(capsys, model_folder):
    return lambda *argv: run(capsys, "generate", "--model", model_folder, "--dtype", "float64", "--raw", *argv)


def test_generate_streams_the_text_and_repeats_it_for_a_seed(generate):
    code, first, _ = generate("a b c", "--seed", 5, "--max-tokens", 12)
    assert code == 0
    assert generate("a b c", "--seed", 5, "--max-tokens", 12)[1] == first
    assert set(first.split()) <= set("abcdefg")


def test_json_has_text_tokens_rule_and_statistics(generate):
    code, out, _ = generate("a b a b a b", "--json", "--temperature", 0, "--max-tokens", 9, "--ignore-eos")
    document = json.loads(out)
    result = document["results"][0]
    assert code == 0
    assert (result["rule"], result["lossless"], len(result["tokens"])) == ("coupling", True, 9)
    assert result["stats"]["tokens"] == 9
    assert document["params"]["temperature"] == 0


def test_no_adaptive_always_drafts_what_it_may(generate):
    arguments = ("a b a", "--max-tokens", 9, "--temperature", 0, "--json", "--no-adaptive")
    document = json.loads(generate(*arguments)[1])
    assert document["adaptive"] is False
    assert set(document["results"][0]["stats"]["unspeculated"]) <= {"no draft", "no room"}


def test_streamed_and_collected_text_are_the_same(generate):
    _, streamed, _ = generate("c d", "--seed", 3, "--max-tokens", 20)
    _, collected, _ = generate("c d", "--seed", 3, "--max-tokens", 20, "--json")
    assert json.loads(collected)["results"][0]["text"] == streamed.rstrip("\n")


def test_a_draft_model_and_statistics(generate, draft_folder):
    code, _, err = generate(
        "a b", "--drafter", "model", "--draft-model", draft_folder, "--stats", "--max-tokens", 9
    )
    assert code == 0
    assert "tokens per forward" in err
    assert "rule block (lossless)" in err


@pytest.mark.parametrize(("shape", "shown"), [("best_first", "best_first"), ("sequoia", "sequoia:")])
def test_medusa_heads_in_a_shape(shape, shown, generate, medusa_folder):
    argv = ("a b", "--max-tokens", "6", "--dtype", "float64", "--json", "--draft-shape", shape)
    code, out, err = generate(*argv, "--drafter", "medusa", "--draft-model", medusa_folder)
    document = json.loads(out)
    assert (code, document["drafter"]) == (0, "medusa")
    assert document["draft_shape"].startswith(shown)
    assert ("measured: --draft-shape sequoia:" in err) == (shape == "sequoia")


def test_an_eagle3_head(generate, head_folder):
    argv = ["a b", "--max-tokens", 15, "--ignore-eos", "--json"]
    code, out, _ = generate(*argv, "--drafter", "eagle3", "--draft-model", head_folder)
    assert (code, json.loads(out)["drafter"]) == (0, "eagle3")
    assert json.loads(out)["results"][0]["stats"]["drafted"] > 0
    assert json.loads(generate(*argv)[1])["drafter"] == "ngram"  # no head comes with this model


def test_a_lossy_rule_runs_only_when_asked_for_and_says_so(generate):
    argv = ["a b a b", "--rule", "lenience:0.5", "--allow-lossy", "--max-tokens", 5]
    result = json.loads(generate(*argv, "--json")[1])["results"][0]
    assert (result["rule"], result["lossless"]) == ("lenience:0.5", False)
    assert "rule lenience:0.5 (LOSSY)" in generate(*argv, "--stats")[2]


def test_several_prompts_are_numbered(generate):
    _, out, _ = generate("a", "b", "--max-tokens", 2, "--temperature", 0)
    assert "[1/2] a" in out
    assert "[2/2] b" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["a", "--rule", "magic"], "unknown rule 'magic'; choose one of: auto, block"),
        (["a", "--rule", "lenience:0.5"], "is lossy: its texts do not follow the target's law"),
        (["a", "--rule", "hsd_published", "--allow-lossy"], "is for audits only"),
        (
            ["a", "--drafter", "magic"],
            "unknown drafter 'magic'; choose one of: dflash, eagle3, early_exit, hybrid, medusa, model, ngram",
        ),
        (["a", "--drafter", "model"], "needs a draft model"),
        (["a", "--temperature", "-1"], "temperature=-1.0 is not allowed"),
        (["a", "--top-p", "0"], "top_p=0.0 is not allowed: give a number in (0, 1]"),
        (["a", "--top-p", "1.5"], "top_p=1.5"),
        (["", "--max-tokens", "3"], "the prompt is empty"),
        (["a " * 40], "40 tokens and the context takes 32"),
        (["a", "--dtype", "float8"], "unknown dtype 'float8'"),
        (["a", "--device", "nowhere"], "device 'nowhere' cannot be used here"),
        (["a", "--threads", "0"], "--threads 0 is not allowed"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(generate, argv, message):
    code, out, err = generate(*argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_draft_model_padded_to_another_size(generate, wider_folder):
    flags = ("--drafter", "model", "--draft-model", wider_folder, "--max-tokens", "4", "--raw", "--json")
    for choice in ("same", "intersection"):
        code, out, err = generate("a", *flags, "--draft-vocabulary", choice)
        assert code == 0, err
        document = json.loads(out)
        assert document["draft_vocabulary"] == choice
        assert all(token < 8 for token in document["results"][0]["tokens"])


def test_an_intersection_needs_a_draft_model(generate):
    code, _, err = generate("a", "--draft-vocabulary", "intersection")
    assert code == 2
    assert "'intersection' needs a draft model" in err


def test_a_model_that_is_not_there(capsys):
    code, _, err = run(capsys, "generate", "a", "--model", "./nowhere")
    assert code == 2
    assert "no model folder at './nowhere'" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["audit", "rule"], "name one rule"),
        (["audit", "rule", "magic"], "unknown rule 'magic'"),
        (["audit", "rule", "block", "--all"], "name one rule"),
        (["audit", "rule", "block", "--instances", "0"], "--instances 0"),
        (["audit", "engine", "--exact", "--rule", "magic"], "unknown rule 'magic'"),
        (["audit", "engine", "--exact", "--drafter", "magic"], "unknown drafter 'magic'"),
        (["audit", "engine", "--exact", "--architecture", "magic"], "unknown architecture 'magic'"),
        (
            ["audit", "engine", "--exact", "--params", "magic"],
            "unknown params 'magic'; choose one of: filters, text",
        ),
    ],
)
def test_wrong_audits_are_refused(capsys, argv, message):
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    "argv", [["nothing"], ["generate"], ["generate", "a", "--temprature", "1"], ["audit", "engine", "--magic"]]
)
def test_wrong_flags_are_one_line_and_exit_code_2(capsys, argv):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert err.count("\n") == 1


def test_audit_rule_prints_verdict_and_known_values(capsys):
    code, out, _ = run(capsys, "audit", "rule", "block", "--instances", 20)
    assert code == 0
    assert out.startswith("EXACT: block: TV ")
    assert "accepts 1.555555555556 nodes a round; known 1.555555555556 (three tokens, chain of 3)" in out


def test_audit_rule_as_json(capsys):
    code, out, _ = run(capsys, "audit", "rule", "rejection", "--instances", 20, "--json")
    result = json.loads(out)[0]
    assert code == 0
    assert (result["rule"], result["ok"], result["instances"]) == ("rejection", True, 20)


def test_audit_engine_reports_faults_as_caught(capsys):
    argv = ["audit", "engine", "--exact", "--rule", "block", "--drafter", "ngram", "--mutants", "--json"]
    code, out, _ = run(capsys, *argv)
    document = json.loads(out)
    assert code == 0
    assert all(result["ok"] for result in document["results"])
    assert all(mutant["caught"] for mutant in document["mutants"])


def test_audit_engine_under_parameters_that_look_at_the_text(capsys):
    code, out, _ = run(
        capsys, "audit", "engine", "--exact", "--params", "text", "--rule", "walk", "--drafter", "ngram"
    )
    assert code == 0
    assert out.count("EXACT") == 4
    for words in ("repetition-penalty 1.4", "min-tokens 2", "logit-bias {0: -0.75", "1 own function)"):
        assert words in out


@pytest.fixture
def short_catalogue(monkeypatch):
    """Three entries whose audits take no time; the whole catalogue is run by its own tests."""
    from specproof.audit import selftest
    from specproof.audit.mutants import CONTROLS, MUTANTS

    chosen = [case for case in MUTANTS if case.id in ("M4", "B9")], [case for case in CONTROLS if case.id == "C7"]
    whole = selftest.self_test
    monkeypatch.setattr(selftest, "self_test", lambda: whole(*chosen))
    return chosen


def test_audit_self_test_prints_a_table_of_at_most_100_columns(capsys, short_catalogue):
    code, out, _ = run(capsys, "audit", "self-test")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "every drafted token is kept" in out
    assert out.count("caught") == 3
    assert "SOUND: 2 of 2 seeded" in out


def test_audit_self_test_as_json(capsys, short_catalogue):
    code, out, _ = run(capsys, "audit", "self-test", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["ok"]
    assert [row["verdict"] for row in document["rows"]] == ["caught", "caught", "passed"]
    first = document["rows"][0]
    assert (first["id"], first["level"], first["samples"], first["false_alarm"]) == ("M4", "rule", 0, 0)
    assert first["tv"] == pytest.approx(first["expected"], abs=1e-12)


@pytest.mark.parametrize("wrong", [0, 1])
def test_audit_self_test_fails_where_a_fault_is_missed_or_a_control_is_not_passed(capsys, short_catalogue, wrong):
    """The control among the faults, or a fault among the controls."""
    mutants, controls = short_catalogue
    (mutants if wrong == 0 else controls).append(controls[0] if wrong == 0 else mutants[0])
    code, out, _ = run(capsys, "audit", "self-test")
    assert code == 1
    assert ("missed", "false alarm")[wrong] in out
    assert "NOT SOUND" in out


def test_flags_of_generate_are_the_fields_of_sampling_params(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "--help"])
    out = capsys.readouterr().out
    for flag in ("--temperature", "--top-k", "--top-p", "--min-p", "--max-tokens", "--seed", "--ignore-eos"):
        assert flag in out
