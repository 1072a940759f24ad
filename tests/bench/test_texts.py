"""Wrong texts are told from near-ties."""

from dataclasses import replace

import torch

from specproof.audit.mutants.cache import stale_cache
from specproof.backends.hf import HFBackend
from specproof.bench.measure import BenchSettings, measure
from specproof.bench.texts import parted_texts
from specproof.bench.ways import Way
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.testing.tiny import tiny_model

from .made import run, ticking

PROMPTS = [[1, 2, 3, seed] for seed in range(4)]


def model():
    return tiny_model("llama", 11)


def runs_of(target, spoil=lambda engine: engine):
    def make(adaptive):
        draft = ModelDrafter(HFBackend(tiny_model("llama", 11, seed=1)), 3)
        return spoil(Engine(target, draft, adaptive=False, trace=True))

    ways = [Way("none", lambda adaptive: Engine(HFBackend(target.model), "none", trace=True)), Way("model", make)]
    settings = BenchSettings((0.0,), max_tokens=40, repeats=1)
    return list(measure(ways, PROMPTS, [0], settings, ticking()))


def test_equal_texts_leave_nothing_to_say():
    one = model()
    assert parted_texts(runs_of(HFBackend(one)), PROMPTS, lambda: HFBackend(one)) == []


def test_a_stale_cache_is_no_near_tie():
    one = model()
    checks = parted_texts(runs_of(HFBackend(one), stale_cache), PROMPTS, lambda: HFBackend(one))
    assert checks
    assert not all(check.ok for check in checks)
    assert any(str(check).startswith("DIFFERENT: model, prompt ") for check in checks)


def test_rounding_below_what_was_measured_is_a_near_tie(monkeypatch):
    """Two tokens tie but for logits that depend on the width of a forward by 1e-6."""
    one = model()
    with torch.no_grad():
        one.get_output_embeddings().weight[4] = one.get_output_embeddings().weight[3]
    inner = HFBackend.forward

    def forward(self, batch, draft, start=None):
        output = inner(self, batch, draft, start)
        output.logits[..., 4] += 1e-6 if output.logits.shape[1] > 1 else -1e-6
        return output

    monkeypatch.setattr(HFBackend, "forward", torch.inference_mode()(forward))
    checks = parted_texts(runs_of(HFBackend(one)), PROMPTS, lambda: HFBackend(one))
    assert checks
    assert all(check.ok for check in checks)
    assert str(checks[0]).startswith("NEAR-TIE")
    assert checks[0].as_dict()["worst_gap"] <= checks[0].as_dict()["margin"] < 1e-4


def test_a_text_that_ends_too_early_is_different():
    one = model()
    plain = next(run for run in runs_of(HFBackend(one)) if run.place.way == "none")
    short = replace(plain, place=plain.place._replace(way="model"), tokens=plain.tokens[:-1])
    (check,) = parted_texts([plain, short], PROMPTS, lambda: HFBackend(one))
    assert not check.ok
    assert str(check).endswith("where one of the two ends")
    assert check.as_dict()["worst_gap"] is None


def test_the_same_parting_counts_once_and_other_temperatures_not_at_all():
    one = model()
    plain = next(run for run in runs_of(HFBackend(one)) if run.place.way == "none")
    wrong = (*plain.tokens[:5], (plain.tokens[5] + 1) % 11, *plain.tokens[6:])
    twice = [replace(plain, place=plain.place._replace(way="model", turn=turn), tokens=wrong) for turn in (0, 1)]
    warm = run("model", temperature=1.0, tokens=(1, 2))
    (check,) = parted_texts([plain, *twice, warm], PROMPTS, lambda: HFBackend(one))
    assert (check.way, check.prompt, check.turn, check.agree, check.ok) == ("model", 0, 0, 5, False)
