"""Tokens of a server against the rows of a model here, and our own server."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from planted import Server
from test_planted import GREEDY, PLAN, SHORT, audit

from specproof.audit.answer import Verdict
from specproof.audit.endpoint.ask import Endpoint
from specproof.audit.endpoint.known import Rows
from specproof.audit.endpoint.local import Local
from specproof.audit.endpoint.run import audit_endpoint
from specproof.audit.endpoint.store import Store
from specproof.audit.endpoint.wire import Answer
from specproof.errors import SpecproofError
from specproof.params import SamplingParams
from specproof.testing.tiny import recomputed_logits, tiny_model

FEW = replace(PLAN, draws=8, round=8, detect=0.5)


@lru_cache(maxsize=1)
def models():
    return tiny_model("llama", 8, 0, context=32), tiny_model("llama", 8, 1, context=32)


@lru_cache(maxsize=20_000)
def row(which, tokens):
    return recomputed_logits(models()[which], list(tokens)).softmax(-1).numpy()


def by_models(tokens):
    return row(0, tuple(tokens)), row(1, tuple(tokens))


@pytest.fixture(scope="module")
def local(model_folder):
    return Local(model_folder, dtype="float64")


@pytest.fixture(scope="module")
def with_draft(model_folder, draft_folder):
    return Local(model_folder, draft_folder, "float64")


@pytest.mark.parametrize("told", ["laws", "ids", "beside"])
def test_a_clean_server_follows_the_model(tmp_path, with_draft, told):
    result = audit(tmp_path, Server(by_models, **{told: True}), plan=FEW, local=with_draft)
    assert result.verdict in (Verdict.LOSSLESS, Verdict.INCONCLUSIVE), result
    assert result.seen.bets.tokens == result.tokens
    assert result.seen.ledger.largest < 1e-12
    assert (result.seen.ledger.positions > 0) == (told == "laws")
    assert any(p.fault == "drafted tokens not verified" for p in result.seen.predictions)


def test_faults_of_the_draft_are_named_with_its_rows(tmp_path, with_draft):
    """Nearly all tokens are drafts, as they come: three of four at full acceptance."""

    class Unverified(Server):
        def _warped(self, tokens, temperature, min_p, rng):
            return self.rows(tokens)[1]

    result = audit(
        tmp_path,
        Unverified(by_models, ids=True, tells="answer"),
        plan=replace(FEW, draws=16),
        local=with_draft,
        off=None,
    )
    assert result.verdict is Verdict.BIASED, result
    assert "drafted tokens not verified" in result.reason


def test_looked_up_drafts_are_rows_of_their_own(tmp_path, model_folder):
    """What followed the last tokens before is certain beforehand, and nothing else is a draft."""
    local = Local(model_folder, dtype="float64", lookup=True)
    start = local.start([1, 2, 3, 1, 2], SamplingParams(max_tokens=4))
    (portion,) = local.scored(start, [3, 5, 1, 2], np.full(4, 0.5), 0.0, merged=False)
    drafted = [row.argmax() if row.any() else None for row in portion.emissions.draft]
    assert drafted == [3, 1, None, 2]
    result = audit(tmp_path, Server(by_models, ids=True), plan=FEW, local=local)
    assert result.seen.with_draft
    assert result.seen.rows == "the rows of --model and of drafts"


@pytest.mark.parametrize("texts", [False, True])
def test_prompts_go_as_tokens_or_as_asked_as_texts(tmp_path, local, texts):
    server = Server(by_models, ids=True)
    result = audit(tmp_path, server, plan=FEW, local=local, texts=texts)
    assert {type(body["prompt"]) for body in server.asked} == {str if texts else list}
    assert result.seen.bets.tokens == result.tokens


def test_what_bets_are_made_of_is_part_of_the_plan(tmp_path, local, with_draft):
    """The same answers, bet on otherwise, are another audit. (Hashes differ anyway: so do the servers' ports.)"""
    settings = []
    for at, each in enumerate((local, with_draft)):
        (tmp_path / str(at)).mkdir()
        result = audit(tmp_path / str(at), Server(by_models, ids=True), plan=FEW, local=each)
        settings.append(result.setting["model"])
    assert settings == [local.described, with_draft.described]
    assert local.described != with_draft.described


def test_another_model_is_no_baseline(tmp_path, draft_folder):
    other = Local(draft_folder, dtype="float64")
    result = audit(tmp_path, Server(by_models, laws=True), plan=FEW, local=other)
    assert result.verdict is Verdict.NO_BASELINE
    assert "off by TV" in result.reason


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_other_temperatures_need_no_reported_laws_with_a_model(tmp_path, local, temperature):
    params, plan = (GREEDY, SHORT) if temperature == 0 else (SamplingParams(temperature=temperature), FEW)
    result = audit(tmp_path, Server(by_models, ids=True), params, plan, local=local)
    assert result.verdict in (Verdict.EXACT, Verdict.LOSSLESS, Verdict.INCONCLUSIVE), result
    assert "--model" in result.seen.rows


def test_log_probabilities_that_say_nothing_are_no_laws(tmp_path, local):
    """Asked for because tokens come with them; were they believed, each token would look certain."""
    result = audit(tmp_path, Server(by_models, beside=True), plan=FEW, local=local)
    assert result.seen.drift.positions == result.seen.ledger.positions == 0
    assert result.seen.rows == "the rows of --model"


def test_unverified_drafts_at_temperature_0(tmp_path, local):
    result = audit(tmp_path, Server(by_models, "first draft unverified", ids=True), GREEDY, SHORT, local=local)
    assert result.verdict is Verdict.BIASED, result


def test_a_tie_that_rounding_decides_is_no_fault(tmp_path, model_folder):
    """Two tokens whose logits part in the last digit of float32: the server has them the other way round."""
    copy = Local(model_folder, dtype="float32")
    served = tiny_model("llama", 8, 0, context=32)
    with torch.no_grad():
        rows = copy._engine.target.model.get_output_embeddings().weight
        rows[2:] = 0
        rows[2] = rows[1] * (1 + 2e-7)
        served.get_output_embeddings().weight[:] = rows.double()
        served.get_output_embeddings().weight[2] = rows[1].double() * (1 - 2e-7)

    def swapped(tokens):
        found = recomputed_logits(served, list(tokens)).softmax(-1).numpy()
        return found, found

    result = audit(tmp_path, Server(swapped, ids=True), GREEDY, SHORT, local=copy, off=None)
    assert result.seen.ties.ties > 0
    assert result.verdict is Verdict.WITHIN_NUMERICS, result


def test_a_server_that_tells_no_tokens_cannot_be_scored(tmp_path, local):
    with pytest.raises(SpecproofError, match="tells no tokens"):
        audit(tmp_path, Server(by_models), plan=FEW, local=local)


def test_tokens_of_another_tokenizer_are_refused(local):
    with pytest.raises(SpecproofError, match="none of --model's"):
        local.output(Answer("xyz", "length", ("xyz",)), SamplingParams())


def test_an_end_that_is_not_told_is_scored(local):
    """The token that ended the text came out like any other: to leave it out would favour all others."""
    params = SamplingParams()
    assert local.output(Answer("a b", "stop", ("a", "b")), params) == [1, 2, 0]
    assert local.output(Answer("a b", "length", ("a", "b")), params) == [1, 2]
    assert local.output(Answer("a", "stop", ("a",), (1, 0)), params) == [1, 0]


def test_tokens_of_one_spelling_count_as_one(local, monkeypatch):
    """Two tokens with one text: the row has their mass together, and the text is certain no further."""
    spelled = {"x": [1, 2]} | {name: ids for name, ids in local._spelling.items() if name not in ("a", "b")}
    monkeypatch.setitem(local.__dict__, "_spelling", spelled)
    monkeypatch.delitem(local.__dict__, "_owner", raising=False)
    params = SamplingParams()
    output = local.output(Answer("c x c", "length", ("c", "x", "c")), params)
    assert output == [3, 1]
    start = local.start([4, 5], params)
    merged = local.scored(start, output, np.full(2, 0.5), 0.0, merged=True)[0].emissions
    plain = local.scored(start, output, np.full(2, 0.5), 0.0, merged=False)[0].emissions
    assert merged.target[:, 1] == pytest.approx(plain.target[:, [1, 2]].sum(1))
    assert (merged.target[:, 2] == 0).all()
    monkeypatch.delitem(local.__dict__, "_owner", raising=False)


def test_bytes_that_make_no_character_are_one_spelling(model_folder):
    """Servers drop them or put signs in their place: whichever, they are some token of these, and count as one."""
    local = Local(model_folder, dtype="float64")
    decode, pieces = local.tokenizer.decode, {1: "\ufffd", 2: "\ufffd\ufffd"}
    local.tokenizer.decode = lambda ids: pieces.get(ids[0]) or decode(ids)
    params = SamplingParams()
    for told in ("", "\ufffd"):
        assert local.output(Answer("c c", "length", ("c", told, "c")), params) == [3, 1]
    assert local._owner[2] == 1


def test_rows_are_known_at_plain_parameters_only_where_laws_are_reported():
    from specproof.audit.endpoint.ask import Granted

    def known(params):
        return Rows(Granted(told=20), params, None, ["a"]).words != ""

    assert known(SamplingParams(max_tokens=4))
    assert known(SamplingParams(max_tokens=4, temperature=0))
    assert not known(SamplingParams(max_tokens=4, temperature=0.7))
    assert not known(SamplingParams(max_tokens=4, top_k=3))


def test_our_own_server_is_audited(tmp_path, model_folder, local):
    """`specproof serve` with a draft model that is far from its target, asked through the API."""
    pytest.importorskip("fastapi")
    import threading
    import time

    import uvicorn

    from specproof.engine.loading import load_engine
    from specproof.server.app import Settings, create_app

    engine = load_engine(model_folder, drafter="early_exit", dtype="float64", adaptive=False)
    app = create_app(engine, Settings("tiny", patience=5.0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        store = Store(tmp_path / "answers.sqlite")
        on, off = ({"speculation": {"enabled": enabled}} for enabled in (True, False))
        result = audit_endpoint(Endpoint(base, on, off), ("a b", "c d"), SamplingParams(), FEW, store, local=local)
        store.close()
    finally:
        server.should_exit = True
        thread.join(timeout=30)
    assert result.verdict in (Verdict.LOSSLESS, Verdict.INCONCLUSIVE), result
    assert result.setting["granted"] == {"told": 20, "ids": False, "named": False, "endless": True, "seed": True}
    assert result.seen.ledger.largest < 1e-6
    assert 0 < result.seen.drafts.accepted < result.seen.drafts.drafted
    assert result.seen.control_drafts.drafted == 0
    assert torch.get_num_threads() == 1
