"""Whole audits of a small server: clean, and with each planted fault. False alarms: alpha is 1e-4 a test."""

from dataclasses import replace

import numpy as np
import pytest
from planted import Server, serving

from specproof.audit.answer import Verdict
from specproof.audit.endpoint.ask import Endpoint
from specproof.audit.endpoint.client import Manners
from specproof.audit.endpoint.plan import EndpointPlan
from specproof.audit.endpoint.run import audit_endpoint
from specproof.audit.endpoint.store import Store
from specproof.params import SamplingParams

PROMPTS = ("a b", "c d")
PLAIN = SamplingParams()
GREEDY = SamplingParams(temperature=0)
PLAN = EndpointPlan(alpha=1e-4, draws=128, length=4, round=32, detect=0.35)
SHORT = replace(PLAN, draws=3, round=3, length=10)
ON, OFF = ({"speculation": {"enabled": enabled}} for enabled in (True, False))


def audit(tmp_path, server, params=PLAIN, plan=PLAN, *, trusted=False, local=None, **asked):
    with serving(server) as base:
        endpoint = Endpoint(base, **{"on": ON, "off": OFF} | asked)
        store = Store(tmp_path / "answers.sqlite")
        try:
            manners = Manners(timeout=20, retries=1, backoff=0)
            return audit_endpoint(
                endpoint, PROMPTS, params, plan, store, trusted=trusted, local=local, manners=manners
            )
        finally:
            store.close()


def test_a_clean_server_is_lossless(tmp_path):
    result = audit(tmp_path, Server(laws=True))
    assert result.verdict is Verdict.LOSSLESS, result
    assert result.exit_code == 0
    assert result.tv is None
    assert 0.2 < result.power <= PLAN.detect
    assert 0.2 < result.answer().acceptance < 0.8
    assert result.seen.rows == "the laws that the server reports"
    assert sum(check.level for check in result.checks) <= PLAN.alpha * (1 + 1e-12)
    *known, both = result.answer().tracks
    assert (both.name, both.at[0], both.at[-1]) == ("both arms", 0, result.tokens)
    assert known
    assert known[0].at[0] == 0
    assert [bars.title for bars in result.answer().panel] == list(PROMPTS)
    (control,) = result.answer().tables
    assert control.rows == (
        ("bets, speculation off", str(result.seen.control.tokens), f"{result.seen.control.pvalue:.2g}"),
    )


# Served texts, parameters, verdict, and words of the reason.
FAULTS = {
    "temperature ignored": (SamplingParams(temperature=0.3), "temperature times"),
    "min-p on the bonus only": (SamplingParams(min_p=0.6), "differ"),
    "seed shared": (PLAIN, "one seed"),
    "first draft unverified": (PLAIN, "texts with speculation and without differ"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_convicted_by_comparison_alone(tmp_path, fault):
    params, words = FAULTS[fault]
    result = audit(tmp_path, Server(fault=fault), params, replace(PLAN, alpha=1e-3))
    assert result.verdict is Verdict.BIASED, result
    assert result.exit_code == 1
    assert words in result.reason
    assert result.pvalue <= 1e-3
    assert 0.05 < result.tv < 1
    assert result.seen.bets is None, "no laws were told"


def test_reported_laws_convict_without_a_comparison(tmp_path):
    """Every token is the likeliest one: the server's own report is enough."""

    class Cold(Server):
        def _warped(self, tokens, temperature, min_p, rng):
            return super()._warped(tokens, 0, min_p, rng)

    plan = replace(PLAN, draws=4, round=4)
    result = audit(tmp_path, Cold(laws=True), plan=plan, off=None)
    assert result.verdict is Verdict.BIASED, result
    assert "no run without speculation" in result.reason
    assert "temperature times" in result.reason


def test_a_temperature_fault_of_both_arms_is_no_baseline(tmp_path):
    class Cold(Server):
        def _warped(self, tokens, temperature, min_p, rng):
            return super()._warped(tokens, 0.2, min_p, rng)

    result = audit(tmp_path, Cold(laws=True), plan=replace(PLAN, draws=32))
    assert result.verdict is Verdict.NO_BASELINE, result
    assert result.exit_code == 3


def test_an_ignored_switch_is_told(tmp_path):
    for tells in ("answer", "metrics"):
        folder = tmp_path / tells
        folder.mkdir()
        result = audit(folder, Server(fault="switch ignored", tells=tells), plan=replace(PLAN, draws=8, round=8))
        assert result.verdict is Verdict.NOT_EXERCISED, result
        assert "the switch (--off) does nothing" in result.reason


def test_silence_about_drafts_is_no_exercise(tmp_path):
    result = audit(tmp_path, Server(tells=""), GREEDY, SHORT)
    assert result.verdict is Verdict.NOT_EXERCISED
    assert "--trust-switch" in result.reason
    assert result.answer().acceptance is None


def test_trust_takes_the_place_of_signs(tmp_path):
    result = audit(tmp_path, Server(tells=""), GREEDY, SHORT, trusted=True)
    assert result.verdict is Verdict.EXACT, result


def test_nothing_drafted_is_no_exercise(tmp_path):
    result = audit(tmp_path, Server(), GREEDY, SHORT, on=OFF)
    assert result.verdict is Verdict.NOT_EXERCISED
    assert "nothing was drafted" in result.reason


@pytest.mark.parametrize("laws", [False, True])
@pytest.mark.parametrize(
    ("fault", "verdicts"),
    [
        ("", (Verdict.EXACT, Verdict.EXACT)),
        ("temperature 0 noisy", (Verdict.NO_BASELINE, Verdict.NO_BASELINE)),
        # Without laws nobody can tell a near-tie from a fault.
        ("first draft unverified", (Verdict.INCONCLUSIVE, Verdict.BIASED)),
    ],
)
def test_temperature_0(tmp_path, fault, verdicts, laws):
    result = audit(tmp_path, Server(fault=fault, laws=laws), GREEDY, SHORT)
    assert result.verdict is verdicts[laws], result


def test_few_texts_answer_nothing(tmp_path):
    result = audit(tmp_path, Server(), plan=replace(PLAN, draws=40, round=40))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "could have been missed" in result.reason


def test_without_a_comparison_faults_of_the_draft_are_not_excluded(tmp_path):
    result = audit(tmp_path, Server(laws=True), plan=replace(PLAN, draws=16, round=16), off=None)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "depend on the draft" in result.reason


def test_another_server_takes_the_place_of_the_switch(tmp_path):
    cold = SamplingParams(temperature=0.3)
    with serving(Server(fault="switch ignored", tells="")) as reference:
        server, plan = Server(fault="temperature ignored"), replace(PLAN, alpha=1e-3)
        result = audit(tmp_path, server, cold, plan, off=None, reference=reference)
        assert result.verdict is Verdict.BIASED, result


def test_servers_that_take_nothing_beyond_the_plain_are_audited(tmp_path):
    server = Server(strict=True, laws=True, ids=True)
    result = audit(tmp_path, server, GREEDY, SHORT)
    assert result.verdict is Verdict.EXACT, result
    assert result.setting["granted"] == {"told": 0} | dict.fromkeys(("ids", "named", "endless", "seed"), False)


def test_streams_say_the_same_as_whole_answers(tmp_path):
    whole, streamed = tmp_path / "whole", tmp_path / "streamed"
    whole.mkdir()
    streamed.mkdir()
    one = audit(whole, Server(laws=True), plan=replace(PLAN, draws=8, round=8))
    other = audit(streamed, Server(laws=True), plan=replace(PLAN, draws=8, round=8), stream=True)
    assert one.seen == other.seen
    assert np.isfinite(one.seen.wager)


def test_the_plan_is_announced_before_the_first_text(tmp_path):
    server = Server()
    told = []
    with serving(server) as base:
        store = Store(tmp_path / "answers.sqlite")
        plan = replace(PLAN, draws=2, round=2)
        result = audit_endpoint(
            Endpoint(base, ON, OFF),
            PROMPTS,
            PLAIN,
            plan,
            store,
            announce=lambda line: told.append((line, store.size)),
        )
        store.close()
    (line, kept), *rest = told
    assert (result.digest in line, kept, rest) == (True, 0, [])
