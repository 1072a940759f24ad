"""A server that fails half-way: nothing is lost, nothing is asked for twice, and one line says what failed."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from planted import Server, serving

from specproof.audit.endpoint.ask import Endpoint
from specproof.audit.endpoint.client import Interrupted, Manners
from specproof.audit.endpoint.plan import EndpointPlan
from specproof.audit.endpoint.run import audit_endpoint
from specproof.audit.endpoint.store import Store
from specproof.errors import SpecproofError
from specproof.params import SamplingParams

PROMPTS = ("a b", "c d")
PLAN = EndpointPlan(draws=8, round=8, length=4)
ON, OFF = ({"speculation": {"enabled": enabled}} for enabled in (True, False))
QUICK = Manners(concurrency=4, timeout=8, retries=3, backoff=0.01)
TEXTS = 2 * 2 * PLAN.draws  # prompts, arms; failures begin before the first of them


def audit(base, path, manners=QUICK, *, stream=False, plan=PLAN, tell=None):
    store = Store(path)
    try:
        endpoint = Endpoint(base, ON, OFF, stream=stream)
        return audit_endpoint(endpoint, PROMPTS, SamplingParams(), plan, store, manners=manners, tell=tell)
    finally:
        store.close()


def kept(path):
    with closing(sqlite3.connect(path)) as file:
        return file.execute(
            "SELECT arm, number, prompt, seed, answer FROM answers ORDER BY arm, number"
        ).fetchall()


@pytest.fixture(scope="module")
def untroubled(tmp_path_factory):
    """What is kept of a server without failures."""
    path = tmp_path_factory.mktemp("untroubled") / "answers.sqlite"
    with serving(Server()) as base:
        audit(base, path)
    return kept(path)


PASSING = {
    "busy": (429, False),
    "server error": (500, False),
    "unavailable": (503, True),
    "stall": ("stall", False),
    "hang up": ("hang up", False),
    "other json": ("other json", False),
    "no json": ("no json", True),
    "cut event": ("cut event", True),
    "cut stream": ("cut stream", True),
    "error event": ("error event", True),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_leaves_no_trace(tmp_path, untroubled, name):
    failure, stream = PASSING[name]
    server = Server(failures=dict.fromkeys((2, 12, 13, 30), failure))
    manners = replace(QUICK, timeout=2) if failure == "stall" else QUICK
    with serving(server) as base:
        audit(base, tmp_path / "answers.sqlite", manners, stream=stream)
    assert kept(tmp_path / "answers.sqlite") == untroubled


LASTING = {
    500: "status 500 (planted)",
    429: "status 429 (planted)",
    "stall": "no sign of life for 2 s",
    "hang up": "a broken connection",
    "other json": "an answer without choices",
    "no json": "not JSON: '<html>planted</html>'",
}


@pytest.mark.parametrize("failure", LASTING)
def test_what_lasts_is_told_in_one_line_and_gone_on_with(tmp_path, untroubled, failure):
    """From request 20 on every one fails; afterwards the server is well again."""
    path = tmp_path / "answers.sqlite"
    server = Server(failures=dict.fromkeys(range(20, 200), failure))
    with serving(server) as base:
        with pytest.raises(Interrupted) as caught:
            audit(base, path, replace(QUICK, retries=1, timeout=2 if failure == "stall" else 8))
        line = str(caught.value)
        assert "\n" not in line
        assert LASTING[failure] in line
        before = kept(path)
        assert f"{len(before)} answers are kept in {path}" in line
        assert 0 < len(before) < TEXTS
        server.failures, server.asked = {}, []
        audit(base, path)
    assert kept(path) == untroubled
    assert len(server.asked) == TEXTS - len(before), "what was kept is not asked for again"


def test_a_server_that_dies(tmp_path, untroubled):
    path = tmp_path / "answers.sqlite"
    with serving(Server(dies=25)) as base, pytest.raises(Interrupted, match="a broken connection"):
        audit(base, path, replace(QUICK, retries=0))
    assert 0 < len(kept(path)) < TEXTS
    with pytest.raises(Interrupted, match=r"connection|connect"):
        audit(base, path, replace(QUICK, retries=0))


class Killed(BaseException):
    pass


def test_a_killed_audit_goes_on(tmp_path, untroubled):
    """Whatever ends the process between two answers, as a signal does."""
    path = tmp_path / "answers.sqlite"

    def kill(progress):
        if progress.texts == 11:
            raise Killed

    server = Server()
    with serving(server) as base:
        with pytest.raises(Killed):
            audit(base, path, tell=kill)
        before = len(kept(path))
        assert 11 <= before < TEXTS
        server.asked = []
        result = audit(base, path)
        assert len(server.asked) == TEXTS - before
        asked = len(server.asked)
        again = audit(base, path)
    assert kept(path) == untroubled
    assert len(server.asked) == asked, "a finished audit asks for nothing"
    assert str(again) == str(result)


def test_answers_of_another_plan_are_not_mixed_in(tmp_path):
    path = tmp_path / "answers.sqlite"
    with serving(Server()) as base:
        audit(base, path)
        with pytest.raises(SpecproofError, match="holds another audit"):
            audit(base, path, plan=replace(PLAN, seed=1))


def test_what_is_refused_is_not_asked_for_again(tmp_path):
    server = Server(failures=dict.fromkeys(range(1, 100), 404))
    with serving(server) as base, pytest.raises(SpecproofError, match=r"refuses with status 404: planted"):
        audit(base, tmp_path / "answers.sqlite")
    assert server.requests == 1


def test_no_server_is_told_in_one_line(tmp_path):
    with pytest.raises(Interrupted, match="is a server there"):
        audit("http://127.0.0.1:9/v1", tmp_path / "answers.sqlite")


def test_manners_are_checked():
    with pytest.raises(SpecproofError, match="concurrency=0"):
        Manners(concurrency=0)
