"""The flags of sampling parameters: repeated ones, wrong ones in one line, and what JSON carries."""

import json
import math

import pytest

from specproof.cli.main import main


@pytest.fixture
def generate(capsys, model_folder):
    """Runs the command on a tiny model; its code, output and errors."""

    def run(*argv):
        try:
            code = main(["generate", "--model", model_folder, "--dtype", "float64", "--raw", *map(str, argv)])
        except SystemExit as stopped:
            code = stopped.code
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--logit-bias", "x"], "'x' is not TOKEN:BIAS, as in 42:-1.5"),
        (["--logit-bias", "1:inf"], "give tokens (whole numbers >= 0) with finite biases"),
        (["--logit-bias", "99:1"], "logit_bias: token 99 is not in the vocabulary, 0 to 7"),
        (["--logit-bias", "1:2", "--logit-bias", "1:3"], "names token 1 more than once"),
        (["--stop-token-ids", "999999"], "stop_token_ids: token 999999 is not in the vocabulary, 0 to 7"),
        (["--min-tokens", "5", "--max-tokens", "3"], "min_tokens=5 is not allowed: give 0 to max_tokens, here 3"),
        (["--bad-words", "zebra"], "bad_words: 'zebra' has no tokens"),
        (["--bad-words", ""], "bad_words="),
        (["--stop", ""], "stop="),
        (["--repetition-penalty", "0"], "repetition_penalty=0.0 is not allowed"),
        (["--n", "0"], "n=0 is not allowed"),
        (["--logprobs", "-1"], "logprobs=-1 is not allowed"),
        (["--logprobs", "1"], "add --json to --logprobs"),
    ],
)
def test_wrong_sampling_flags_are_one_line_and_exit_code_2(generate, argv, message):
    code, out, err = generate("a b", *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_repeated_flags_all_count(generate):
    argv = ["a b a b", "--seed", 1, "--max-tokens", 25, "--ignore-eos", "--json"]
    for word in "abc":
        argv += ["--bad-words", word]
    for bias in ("4:-99", "5:-99"):
        argv += ["--logit-bias", bias]
    result = json.loads(generate(*argv)[1])["results"][0]
    assert set(result["tokens"]) <= {0, 6, 7}
    assert len(result["tokens"]) == 25


def test_several_stops_and_end_tokens(generate):
    argv = ["a", "--max-tokens", 25, "--ignore-eos", "--json"]
    for seed in range(5):
        text = json.loads(generate(*argv, "--seed", seed)[1])["results"][0]
        stops = ["--stop", "f", "--stop", "g", "--stop-token-ids", 1, "--stop-token-ids", 2]
        cut = json.loads(generate(*argv, "--seed", seed, *stops)[1])["results"][0]
        end = next(place for place, token in enumerate(text["tokens"]) if token in (6, 7, 1, 2))
        assert cut["tokens"] == text["tokens"][: end + 1]
        assert cut["finish_reason"] == "stop"
        assert "f" not in cut["text"]
        assert "g" not in cut["text"]


def test_json_carries_logprobs_and_every_parameter(generate):
    argv = ["a b c", "--seed", 3, "--max-tokens", 6, "--ignore-eos", "--json", "--n", 2]
    argv += ["--logprobs", 2, "--prompt-logprobs", 1, "--logit-bias", "1:0.5", "--bad-words", "d e"]
    code, out, _ = generate(*argv)
    document = json.loads(out)
    assert code == 0
    assert document["params"]["logit_bias"] == {"1": 0.5}
    assert document["params"]["bad_words"] == ["d e"]
    assert [result["index"] for result in document["results"]] == [0, 1]
    for result in document["results"]:
        assert [entry["token"] for entry in result["logprobs"]] == result["tokens"]
        assert all(len(entry["top"]) == len(entry["raw_top"]) == 2 for entry in result["logprobs"])
        assert all(math.isfinite(entry["logprob"]) and entry["raw"] < 0 for entry in result["logprobs"])
        first, *rest = result["prompt_logprobs"]
        assert first is None
        assert [entry["token"] for entry in rest] == [2, 3]


def test_completions_are_numbered_and_the_same_as_in_json(generate):
    argv = ["a b", "--n", 3, "--seed", 3, "--max-tokens", 6, "--ignore-eos"]
    _, printed, _ = generate(*argv, "--stats")
    texts = [result["text"] for result in json.loads(generate(*argv, "--json")[1])["results"]]
    assert printed.splitlines() == [f"({i} of 3) {text}" for i, text in enumerate(texts, 1)]


def test_a_text_that_cannot_go_on_says_so_and_gives_exit_code_1(generate):
    argv = ["a b", *(flag for word in "abcdefg" for flag in ("--bad-words", word)), "--min-tokens", 2]
    code, out, err = generate(*argv)
    assert (code, out) == (1, "\n")
    assert err == "specproof: no next token after 0 tokens of output: logits hold NaN or infinity, " + (
        "or everything was forbidden\n"
    )
    code, out, _ = generate(*argv, "--json")
    assert code == 1
    assert json.loads(out)["results"][0]["finish_reason"] == "error"
