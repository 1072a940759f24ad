"""The exact law of the whole engine, and the faults it must see."""

from dataclasses import fields

import pytest
import torch

from specproof.audit.engine_exact import audit_engine, engine_law, model_law
from specproof.audit.engine_suite import DRAFTERS, END, PARAMS, TEXT_PARAMS, audit_engines
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import HEADED
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import ARCHITECTURES
from specproof.types import EXTRA, PROPOSE, Key, SamplingParams, TokenSequence

# These draft from the second token on, so they take more tokens and time; tests/drafters has their law.
LATE = [name for name in DRAFTERS if name.startswith(HEADED)]


def begin(prompt, params):
    return TokenSequence(prompt, len(prompt), params, 0, frozenset({END}))


@pytest.mark.parametrize(
    "drafter",
    [pytest.param(name, marks=pytest.mark.slow) if name in LATE else name for name in DRAFTERS],
)
@pytest.mark.parametrize("architecture", ["llama", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_every_rule_and_drafter_has_the_models_law(architecture, drafter):
    """Temperature 1 and 0.7 with top-k and top-p, an end token, at least two drafted rounds."""
    results = [result for _, result in audit_engines(drafters=[drafter], architecture=architecture)]
    assert len({result.rule for result in results}) >= 2
    for result in results:
        assert result.ok, str(result)
        assert result.paths >= 8, str(result)
        # An old answer is drafted once: after a refusal it is done with.
        assert result.rounds >= {"none": 0, "replay": 1}.get(drafter, 2), str(result)


@pytest.mark.parametrize(("rule", "drafter"), [("walk", "ngram"), ("block", "model"), ("coupling", "tree-point")])
def test_what_looks_at_the_text_keeps_the_law(rule, drafter):
    results = list(audit_engines((rule,), (drafter,), params="text"))
    assert len(results) == len(TEXT_PARAMS)
    for _, result in results:
        assert result.ok, str(result)
        assert result.rounds >= 1
        assert result.replay.endswith("--params text")


@pytest.mark.slow
def test_every_rule_and_drafter_under_what_looks_at_the_text():
    assert all(result.ok for _, result in audit_engines(params="text"))


def test_the_suites_settings_have_every_parameter_that_shapes_the_law():
    usual, settings = SamplingParams(), (*PARAMS, *TEXT_PARAMS)
    changed = {f.name for p in settings for f in fields(p) if getattr(p, f.name) != getattr(usual, f.name)}
    others = {"stop", "ignore_eos", "seed", "n", "logprobs", "prompt_logprobs"}
    structure = {"json_schema", "regex", "grammar"}  # the shape of the whole text, which has tests of its own
    assert changed == {f.name for f in fields(usual)} - others - structure


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_with_one_more_token(architecture):
    longer = [SamplingParams(temperature=0.7, top_k=3, top_p=0.9, max_tokens=5)]
    results = audit_engines(("rejection", "block"), ("ngram", "model"), architecture=architecture, params=longer)
    assert all(result.ok for _, result in results)


def table_engine(target, draft, **options):
    drafter = ModelDrafter(TableBackend(draft), 2)
    return Engine(TableBackend(target), drafter, "block", noise=EnumeratingNoise(), eos=(END,), **options)


def tables():
    generator = torch.Generator().manual_seed(3)
    return TableModel.random(3, 3, generator, zeros=0.2), TableModel.random(3, 3, generator)


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_the_number_of_rows_does_not_change_the_law(rows):
    target, draft = tables()
    law, paths, _ = engine_law(table_engine(target, draft, max_batch=rows), [1, 1], PARAMS[0])
    expected = model_law(lambda tokens: target.row(tokens).log(), begin([1, 1], PARAMS[0]), 1 << 20)
    assert law.keys() == expected.keys()
    assert all(law[text] == pytest.approx(expected[text], abs=1e-13) for text in law)
    assert paths > len(law)


def test_the_models_law_sums_to_one_and_stops_at_the_end_token():
    target, _ = tables()
    law = model_law(lambda tokens: target.row(tokens).log(), begin([1], SamplingParams(max_tokens=3)), 1 << 20)
    assert sum(law.values()) == pytest.approx(1, abs=1e-14)
    assert all(END not in text[:-1] for text in law)
    assert any(text[-1] == END and len(text) < 3 for text in law)


def test_an_engine_that_stops_too_early_is_seen():
    """Every emitted token has the right law, only the texts are cut short."""
    target, draft = tables()

    def logits(tokens):
        return target.row(tokens).log()

    shorter = SamplingParams(max_tokens=2)
    assert audit_engine(table_engine(target, draft), logits, [1, 1], shorter).ok
    law, _, _ = engine_law(table_engine(target, draft), [1, 1], shorter)
    expected = model_law(logits, begin([1, 1], PARAMS[0]), 1 << 20)
    assert sum(abs(law.get(t, 0) - expected.get(t, 0)) for t in {*law, *expected}) / 2 > 0.05


class TestEnumeration:
    def test_every_path_is_run_once_and_probabilities_add_up(self):
        noise, rows, seen = EnumeratingNoise(), torch.tensor([[0.5, 0.0, 0.3, 0.2]]).double(), {}
        while noise.open:
            noise.start(1)
            first = int(noise.choose(rows, [Key(1, 0, PROPOSE)]))
            second = int(noise.choose(rows, [Key(1, 1, EXTRA)])) if first != 2 else -1
            seen[first, second] = noise.finish(1).probability
        assert len(seen) == 7
        assert sum(seen.values()) == pytest.approx(1)
        assert seen[0, 3] == pytest.approx(0.1)
        assert seen[2, -1] == pytest.approx(0.3)

    def test_b7_the_same_number_for_two_decisions_is_a_fault(self):
        """Field case B7: no (stream, counter) pair is used twice."""
        noise = EnumeratingNoise()
        noise.start(1)
        rows = torch.tensor([[0.5, 0.5]])
        noise.choose(rows, [Key(1, 0, EXTRA)])
        with pytest.raises(AssertionError, match="one random number for two"):
            noise.choose(rows, [Key(1, 0, EXTRA)])
