"""`specproof audit endpoint`: exit codes, one line for what is wrong, the report as text, JSON and a page."""

import json
import os

import pytest
from planted import Server, serving

from specproof.cli.main import main

SWITCH = ["--on", '{"speculation": {"enabled": true}}', "--off", '{"speculation": {"enabled": false}}']
GREEDY = ["--temperature", "0", "--max-tokens", "8", "--prompt", "a b", "--prompt", "c d"]
QUICK = ["--backoff", "0", "--retries", "0", "--timeout", "20"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(base, *flags):
    return main(["audit", "endpoint", base, *SWITCH, *GREEDY, *QUICK, *flags])


def test_a_lossless_server_is_0_and_the_report_says_all(capsys, tmp_path):
    with serving(Server(laws=True)) as base:
        assert run(base.removesuffix("/v1"), "--json", "--html", "page.html") == 0
        said = capsys.readouterr()
        assert run(base.removesuffix("/v1")) == 0
        again = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["verdict"], document["ok"], document["kind"]) == ("EXACT", True, "endpoint")
    for name in ("digest", "alpha", "pvalue", "samples", "acceptance", "versions", "replay", "plan"):
        assert document[name] is not None, name
    assert document["digest"] in said.err, "the plan is printed before"
    assert document["plan"]["setting"]["granted"]["told"] == 20
    assert document["versions"]["httpx"]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert again.out.startswith("EXACT: ")
    assert "again: specproof" in again.out
    kept = list(tmp_path.glob("specproof-audit-*.sqlite"))
    assert len(kept) == 1, "the same flags find the same answers"
    assert "12 answers are kept already" in again.err


def test_a_biased_server_is_1(capsys):
    with serving(Server(fault="first draft unverified", laws=True)) as base:
        assert run(base) == 1
    assert capsys.readouterr().out.startswith("BIASED: ")


def test_a_server_that_stops_is_3_in_one_line(capsys):
    with serving(Server(failures=dict.fromkeys(range(16, 99), 500))) as base:
        assert run(base) == 3
    *_, last = capsys.readouterr().err.strip().splitlines()
    assert "failed 1 times, at last with status 500 (planted)" in last
    assert "the same command goes on from there" in last


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--on", "x"], "no JSON object"),
        (["--draft-model", "x"], "--draft-model needs --model"),
        (["--draft-lookup"], "--draft-lookup needs --model"),
        (["--model", "x", "--draft-model", "x", "--draft-lookup"], "give one"),
        (["--concurrency", "0"], "concurrency=0"),
        (["--regex", "a"], "regex does nothing in an audit of a server"),
        (["--html", "none/page.html"], "no such folder"),
        (["--samples", "none/a.sqlite"], "name a file in an existing folder"),
        (["--reference", "ftp://x/v1"], "is no address"),
    ],
)
def test_wrong_use_is_2_in_one_line(capsys, flags, words):
    try:
        code = run("http://127.0.0.1:9/v1", *flags)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    err = capsys.readouterr().err.strip()
    assert words in err
    assert "\n" not in err


def test_nobody_there_is_3(capsys):
    assert run("http://127.0.0.1:9") == 3
    assert "is a server there" in capsys.readouterr().err


def test_the_key_is_sent_and_kept_nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", "secret-of-mine")
    server = Server(laws=True)
    with serving(server) as base:
        assert run(base, "--api-key-env", "MY_KEY") == 0
    assert server.keys == {"Bearer secret-of-mine"}
    for path in tmp_path.iterdir():
        assert b"secret-of-mine" not in path.read_bytes()
    assert os.environ["MY_KEY"] == "secret-of-mine"
