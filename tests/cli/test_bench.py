"""`specproof bench`: what it prints and writes, on a tiny model."""

import json
import re
from xml.etree import ElementTree

import pytest

from specproof.cli.main import main
from specproof.engine.engine import Engine

PROMPTS = """{"kind": "copy", "prompt": "a b c a b c a b"}
{"kind": "copy", "prompt": "e e e e e"}
{"kind": "a & <b>", "prompt": "d"}
"""


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def bench(capsys, model_folder, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(PROMPTS)
    fixed = ("--model", model_folder, "--dtype", "float64", "--prompts", prompts, "--max-tokens", 4)
    return lambda *argv: run(capsys, "bench", *fixed, "--repeats", 1, *argv)


def figures(svgs):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", svgs, re.S)]


def test_a_bench_says_what_was_measured_and_writes_it_down(bench, tmp_path):
    code, out, err = bench("--drafter", "ngram", "--json", tmp_path / "b.json", "--html", tmp_path / "b.html")
    assert (code, "Traceback" in err) == (0, False)
    assert "temperature 0, mean of 2 kinds" in out
    assert "8 speculative texts" not in out
    assert "speculative texts at temperature 0: all equal the plain ones" in out
    assert re.search(r"All kinds at temperature 1: (speculate with|don't speculate|no reason)", out)
    for said in ("float64", "threads", "torch 2.", "rules  none: coupling, ngram: coupling", "forward by width"):
        assert said in out
    document = json.loads((tmp_path / "b.json").read_text())
    assert document["ok"] is True
    assert document["made"]["prompts"]["kinds"] == {"copy": 2, "a & <b>": 1}
    assert document["made"]["settings"] == {
        "temperatures": [0.0, 1.0],
        "max_tokens": 4,
        "repeats": 1,
        "adaptive": True,
        "seed": 0,
    }
    assert document["made"]["versions"].keys() == {"specproof", "torch", "transformers", "python"}
    places = [(one["temperature"], one["way"], one["kind"]) for one in document["figures"]]
    kinds = ("copy", "a & <b>", "mean")
    assert places == [(t, way, kind) for t in (0.0, 1.0) for way in ("none", "ngram") for kind in kinds]
    # Three prompts in one turn, and a probe of each kind.
    assert document["texts"] == {"checked": 5, "parted": []}
    page = (tmp_path / "b.html").read_text()
    assert "http" not in page
    assert "a &amp; &lt;b&gt;" in page
    assert '<b>"' not in page
    for figure in figures(page)[1:]:
        assert figure.find("{*}title").text
        assert figure.find("{*}desc").text
    for colour in set(re.findall(r"var\((--[a-z-]+)\)", page)):
        assert page.count(f"{colour}: ") >= 2, "a colour for light and one for dark"


def test_the_default_drafters_need_no_weights(bench, tmp_path):
    code, _, _ = bench("--temperature", 0, "--per-kind", 1, "--json", tmp_path / "b.json")
    document = json.loads((tmp_path / "b.json").read_text())
    assert code == 0
    assert document["made"]["ways"] == ["none", "ngram", "suffix", "early_exit"]
    assert document["made"]["prompts"]["kinds"] == {"copy": 1, "a & <b>": 1}


def test_folders_of_draft_models_and_heads(bench, tmp_path, draft_folder, head_folder):
    ways = [f"model={draft_folder}", f"eagle3={head_folder}"]
    code, _, err = bench("--temperature", 0, "--drafter", ",".join(ways), "--json", tmp_path / "b.json")
    document = json.loads((tmp_path / "b.json").read_text())
    assert code == 0, err
    assert document["made"]["ways"] == ["none", *ways]
    drafted = {one["way"]: one["drafted_at"] for one in document["figures"] if one["kind"] == "mean"}
    assert all(drafted[way] for way in ways)


def test_a_wrong_text_fails_the_bench(bench, monkeypatch, tmp_path):
    """A drafter whose texts all begin with token 3."""
    inner = Engine.result

    def result(self, request):
        found = inner(self, request)
        if self.drafter_name == "suffix":
            request.sequence.tokens[found.prompt_tokens] = 3
            found = inner(self, request)
        return found

    monkeypatch.setattr(Engine, "result", result)
    code, out, _ = bench(
        "--temperature",
        0,
        "--drafter",
        "ngram,suffix",
        "--json",
        tmp_path / "b.json",
        "--html",
        tmp_path / "b.html",
    )
    assert code == 1
    assert "FAIL: speeds of the ways with DIFFERENT texts mean nothing" in out
    assert "DIFFERENT: suffix, prompt " in out
    assert "WRONG TEXT" in out
    document = json.loads((tmp_path / "b.json").read_text())
    assert document["ok"] is False
    assert not any(sentence["way"] == "suffix" for sentence in document["advice"])
    page = (tmp_path / "b.html").read_text()
    assert "suffix (WRONG TEXT)" in page
    assert ">wrong</dd>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--drafter", "ngrams"), "'ngrams'"),
        (("--drafter", "ngram,ngram"), "twice"),
        (("--drafter", "ngram=x"), "takes no folder"),
        (("--drafter", "model"), "model=FOLDER"),
        (("--drafter", "eagle3"), "no EAGLE-3 head"),
        (("--temperature", "hot"), "give numbers"),
        (("--temperature", "0,0"), "each once"),
        (("--max-tokens", 1), "max_tokens=1"),
        (("--repeats", 0), "repeats=0"),
        (("--per-kind", 0), "--per-kind 0"),
        (("--prompts", "no/such/file"), "cannot read --prompts"),
        (("--speedup", 2), "add --rl"),
        (("--json", "no/such/folder/b.json"), "cannot write --json"),
    ],
)
def test_wrong_input_is_one_line(bench, arguments, message):
    code, _, err = bench(*arguments)
    assert code == 2
    assert message in err
    assert err.strip().splitlines()[-1].startswith("specproof: ")


def test_a_training_step_is_planned(capsys, tmp_path):
    path = tmp_path / "plan.json"
    code, out, _ = run(
        capsys,
        *("bench", "--rl", "--generation-share", 100 / 151.2, "--speedup", 1.77, "--tokens-per-forward", 3.32),
        *("--step-seconds", 151.2, "--json", path),
    )
    assert code == 0
    assert "makes a step 1.404x as fast (151.2 s become 107.7 s)" in out
    assert "1.859x as fast" in out
    (plan,) = json.loads(path.read_text())
    assert round(plan["step_bound"], 3) == 1.859


def test_a_training_step_is_planned_from_a_bench(bench, capsys, tmp_path):
    path = tmp_path / "b.json"
    bench("--temperature", 0, "--drafter", "ngram", "--per-kind", 1, "--json", path)
    code, out, _ = run(capsys, "bench", "--rl", "--generation-share", 0.7, "--measured", path)
    assert code == 0
    assert out.startswith("ngram at temperature 0:\nGeneration is 70.0 % of a training step.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--generation-share"),
        (("--generation-share", 0.5), "--tokens-per-forward"),
        (("--generation-share", 2, "--speedup", 2), "0 to 1"),
        (("--generation-share", 0.5, "--speedup", 2, "--html", "x.html"), "--html"),
        (("--generation-share", 0.5, "--measured", "no/such/file"), "cannot read --measured"),
        (("--generation-share", 0.5, "--measured", "x", "--speedup", 2), "leave --speedup"),
    ],
)
def test_a_plan_that_makes_no_sense(capsys, arguments, message):
    code, _, err = run(capsys, "bench", "--rl", *arguments)
    assert code == 2
    assert message in err
