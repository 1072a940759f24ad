"""Audits of transformers' generate on tiny models: its own ways pass, planted faults do not."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from specproof.audit.answer import Verdict
from specproof.audit.generate import ways
from specproof.audit.generate.run import audit_generate
from specproof.audit.generate.watch import watched
from specproof.audit.white.plan import Plan
from specproof.errors import SpecproofError
from specproof.params import SamplingParams
from specproof.testing.tiny import tiny_model

PROMPTS = ((1, 2), (3, 4, 5))
# Without the panel here: it costs a call of generate for every few tokens.
PLAN = Plan(alpha=1e-5, tokens=300, length=20, detect=0.5, draws=0)
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama", 8, 0)


@pytest.fixture(scope="module")
def smaller():
    made = tiny_model("llama", 8, 1)
    made.generation_config.num_assistant_tokens = 3
    made.generation_config.num_assistant_tokens_schedule = "constant"
    made.generation_config.assistant_confidence_threshold = 0
    return made


def way_of(name, model, smaller):
    if name == "assistant":
        return ways.assistant(smaller)
    if name == "early exit":
        return ways.early_exit(model, 1)
    return ways.prompt_lookup(model, 3)


@pytest.mark.parametrize("name", ["assistant", "early exit", "prompt lookup"])
@pytest.mark.parametrize("params", [SamplingParams(temperature=0.8, top_k=5, top_p=0.9), GREEDY], ids=["0.8", "0"])
def test_its_own_ways_pass(model, smaller, name, params):
    """False alarms: alpha is 1e-5, twice (with speculation and without)."""
    plan = PLAN if params.temperature else replace(PLAN, tokens=80)
    result = audit_generate(model, way_of(name, model, smaller), PROMPTS, params, plan)
    allowed = (Verdict.LOSSLESS, Verdict.INCONCLUSIVE) if params.temperature else (Verdict.EXACT,)
    assert result.verdict in allowed, result
    assert 0 < result.findings.accepted < result.findings.drafted
    assert result.answer().kind == "transformers"
    assert model.config.num_hidden_layers == 2


def greedy_when_sampling(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
    """A decoding loop that takes the likeliest token whatever was asked, two tokens a step."""
    tokens = input_ids
    while tokens.shape[1] < generation_config.max_length:
        for _ in range(2):
            logits = model(input_ids=tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
    return tokens[:, : generation_config.max_length]


def without_top_k(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
    """A decoding loop that forgets all filters."""
    tokens = input_ids
    while tokens.shape[1] < generation_config.max_length:
        logits = model(input_ids=tokens, use_cache=False).logits[:, -1]
        tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
    return tokens


@pytest.mark.parametrize(
    ("loop", "params", "words"),
    [
        (greedy_when_sampling, SamplingParams(), "temperature times"),
        (without_top_k, SamplingParams(top_k=2), "probability 0"),
    ],
)
def test_faulty_loops_are_convicted(model, loop, params, words):
    result = audit_generate(model, ways.custom(loop, {}), PROMPTS, params, PLAN)
    assert result.verdict is Verdict.BIASED, result
    assert result.exit_code == 1
    assert words in result.reason


def test_a_loop_that_goes_too_far_is_convicted(model):
    def further(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        more = torch.ones((1, generation_config.max_length - input_ids.shape[1] + 1), dtype=torch.long)
        return torch.cat([input_ids, more], 1)

    result = audit_generate(model, ways.custom(further, {}), PROMPTS, SamplingParams(), PLAN)
    assert result.verdict is Verdict.BIASED
    assert "do not end where" in result.reason


def test_a_draft_of_the_likeliest_token_judged_by_its_soft_row_is_convicted(model, smaller, monkeypatch):
    """transformers' own fault of 2024 (issue 32867): the assistant decodes greedily, the rule does not know."""
    from transformers.generation import candidate_generator

    whole = candidate_generator.AssistedCandidateGenerator.__init__

    def greedy(self, *args, **kwargs):
        whole(self, *args, **kwargs)
        self.generation_config.do_sample = False

    monkeypatch.setattr(candidate_generator.AssistedCandidateGenerator, "__init__", greedy)
    plan = replace(PLAN, tokens=1500, alpha=1e-3)
    result = audit_generate(model, ways.assistant(smaller), PROMPTS, SamplingParams(), plan)
    assert result.verdict is Verdict.BIASED, result
    assert "likeliest token drafted" in result.reason


def test_without_a_draft_nothing_is_exercised(model):
    def plain(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        return without_top_k(model, input_ids, logits_processor, stopping_criteria, generation_config)

    small = replace(PLAN, tokens=100)
    result = audit_generate(model, ways.custom(plain, {}), PROMPTS, SamplingParams(), small)
    assert result.verdict is Verdict.NOT_EXERCISED, result


def test_our_own_loop_passes_and_its_drafts_are_seen(model):
    from specproof.hf import generate

    way = ways.custom(generate, {"drafter": "early_exit", "return_dict_in_generate": True})
    result = audit_generate(model, way, PROMPTS, SamplingParams(), replace(PLAN, tokens=200))
    assert result.verdict in (Verdict.LOSSLESS, Verdict.INCONCLUSIVE), result
    assert 0 < result.findings.accepted < result.findings.drafted


def test_watching_changes_nothing_and_leaves_nothing(model, smaller):
    ids = torch.tensor([[1, 2]])
    made = []
    for watch in (False, True):
        torch.manual_seed(5)
        options = {"assistant_model": smaller, "do_sample": True, "max_new_tokens": 12, "pad_token_id": 0}
        if watch:
            with watched(model) as counts:
                made.append(model.generate(ids, **options).tolist())
        else:
            made.append(model.generate(ids, **options).tolist())
    assert made[0] == made[1]
    assert counts.drafted > 0
    assert "_get_candidate_generator" not in vars(model)


def test_what_generate_does_not_have_is_refused(model, smaller):
    with pytest.raises(SpecproofError, match="presence_penalty"):
        audit_generate(model, ways.assistant(smaller), PROMPTS, SamplingParams(presence_penalty=1.0), PLAN)
    with pytest.raises(SpecproofError, match="--early-exit 2"):
        ways.early_exit(model, 2)
    with pytest.raises(SpecproofError, match="no prompts"):
        audit_generate(model, ways.assistant(smaller), (), SamplingParams(), PLAN)


def test_repeated_prefixes_are_scored_under_the_parameters_of_their_texts(model):
    """No chance in it: the rows that draws are compared with forbid what generate forbids, here the end."""
    tokenizer = SimpleNamespace(eos_token_id=3, decode=str, all_special_ids=[])
    plan = replace(PLAN, tokens=40, draws=16, prefixes=2, depth=2)
    params = SamplingParams(min_tokens=4)
    result = audit_generate(model, ways.early_exit(model, 1), PROMPTS, params, plan, tokenizer=tokenizer)
    masses = [dict(zip(each.names, each.target, strict=True)) for each in result.findings.bars]
    assert len(masses) == 2
    assert all(mass.get("[3]", 0) == 0 for mass in masses), masses


@pytest.mark.parametrize("told", [True, False])
def test_a_draft_model_lets_bets_see_what_a_loop_does_with_its_drafts(model, smaller, told):
    """A correction from the whole target row; without draft rows the answer says that nothing here sees it."""

    def redrawn(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        tokens, drafted, accepted = input_ids, 0, 0
        while tokens.shape[1] < generation_config.max_length:
            target, draft = (
                each(input_ids=tokens, use_cache=False).logits[0, -1].softmax(-1) for each in (model, smaller)
            )
            node = torch.multinomial(draft, 1)
            kept = bool(torch.rand(1) < target[node] / draft[node])
            drafted, accepted = drafted + 1, accepted + kept
            token = node if kept else torch.multinomial(target, 1)
            tokens = torch.cat([tokens, token[None]], 1)
        return SimpleNamespace(sequences=tokens, statistics=[SimpleNamespace(drafted=drafted, accepted=accepted)])

    way = ways.custom(redrawn, {}, smaller if told else None)
    plan = replace(PLAN, tokens=3000 if told else 200, alpha=1e-3)
    result = audit_generate(model, way, PROMPTS, SamplingParams(), plan)
    assert result.verdict is (Verdict.BIASED if told else Verdict.INCONCLUSIVE), result
    assert ("drawn from the target's row" if told else "nothing here sees any fault of drafts") in result.reason


@pytest.mark.slow
def test_the_panel_sees_what_bets_without_draft_rows_do_not(model):
    """A correction drawn from the whole target row, in a loop that says nothing of its drafts."""

    def redrawn(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        tokens = input_ids
        while tokens.shape[1] < generation_config.max_length:
            target = model(input_ids=tokens, use_cache=False).logits[0, -1].softmax(-1)
            draft = target.roll(1)
            node = torch.multinomial(draft, 1)
            kept = bool(torch.rand(1) < target[node] / draft[node])
            token = node if kept else torch.multinomial(target, 1)
            tokens = torch.cat([tokens, token[None]], 1)
        return tokens

    plan = Plan(alpha=1e-4, tokens=200, length=20, draws=256, prefixes=4)
    result = audit_generate(model, ways.custom(redrawn, {}), PROMPTS, SamplingParams(), plan)
    assert result.verdict is Verdict.BIASED, result
