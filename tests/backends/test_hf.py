"""The transformers backend against recomputation, and what it refuses."""

import pytest
import torch
import transformers as hf

from specproof.audit.mutants.cache import StaleBackend
from specproof.backends.hf import HFBackend
from specproof.drafters.none import empty_draft
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_backend
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

SMALL = {"vocab_size": 8, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def sequence(tokens):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(), 0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ragged_batches_and_trees_equal_recomputation(architecture, attention):
    # transformers' eager attention takes its softmax in float32, whatever the model's dtype.
    backend = HFBackend(tiny_model(architecture, 7, attention=attention))
    check_backend(backend, tolerance=1e-9 if attention == "sdpa" else 1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_b29_a_wide_forward_equals_single_ones_at_every_start(architecture):
    """Field case B29: starts 0 to 5, widths 1 to 5, against recomputation without any cache."""
    model = tiny_model(architecture, 7)
    backend = HFBackend(model)
    text = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0]
    for start in range(1, 7):
        for width in range(1, 6):
            one = sequence(text[:start])
            drafted = torch.tensor([text[start : start + width]])
            logits = backend.forward([one], Draft((Tree.chain(width),), drafted, None, "point")).logits[0]
            for i in range(width + 1):
                assert torch.allclose(logits[i], recomputed_logits(model, text[: start + i]), atol=1e-10)
            backend.free([one])


@pytest.mark.parametrize("rejected_at", range(5))
def test_b22_a_prompt_of_one_token_with_rejections_at_every_place(rejected_at):
    """Field case B22: every row equals recomputation over 40 tokens."""
    model = tiny_model("llama", 7)
    backend = HFBackend(model)
    one = sequence([2])
    while len(one.tokens) < 40:
        tokens = torch.randint(7, (1, 4), generator=torch.Generator().manual_seed(len(one.tokens)))
        logits = backend.forward([one], Draft((Tree.chain(4),), tokens, None, "point")).logits[0]
        for i in range(5):
            expected = recomputed_logits(model, one.tokens + tokens[0, :i].tolist())
            assert torch.allclose(logits[i], expected, atol=1e-10)
        path = tuple(range(rejected_at))
        one.tokens += [*tokens[0, :rejected_at].tolist(), len(one.tokens) % 7]
        backend.keep([one], [path])


def test_rows_move_together_when_sequences_leave_and_the_store_grows():
    model = tiny_model("llama", 7, context=700)
    backend = HFBackend(model)
    batch = [sequence([i % 7 for i in range(n)]) for n in (300, 2, 5, 9)]
    backend.forward(batch, empty_draft(4))
    for one in batch:
        one.tokens.append(1)
    backend.keep(batch, [()] * 4)
    backend.free([batch[0], batch[2]])
    left = [batch[1], batch[3]]
    logits = backend.forward(left[::-1], empty_draft(2)).logits
    for found, one in zip(logits[:, 0], left[::-1], strict=True):
        assert torch.allclose(found, recomputed_logits(model, one.tokens), atol=1e-10)


def test_a_sequence_that_made_no_sense_leaves_nothing_behind():
    """Entries of a freed row may hold NaN; the next one in that row must not see them."""
    model = tiny_model("llama", 7)
    backend = HFBackend(model)
    backend.forward([sequence([1, 2, 3, 4])], empty_draft(1))
    with torch.inference_mode():
        for store in (*backend.store._keys, *backend.store._values):
            store[:, :, :4] = float("nan")
    backend.free([row.sequence for row in backend.store.rows])
    assert torch.allclose(
        backend.forward([sequence([5])], empty_draft(1)).logits[0, 0], recomputed_logits(model, [5]), atol=1e-10
    )


def test_a_failed_forward_leaves_an_empty_store(monkeypatch):
    backend = HFBackend(tiny_model("llama", 7))
    monkeypatch.setattr(backend, "_run", lambda layout: (_ for _ in ()).throw(RuntimeError("out of memory")))
    with pytest.raises(RuntimeError, match="out of memory"):
        backend.forward([sequence([1, 2])], empty_draft(1))
    assert backend.store.rows == []


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (lambda: hf.MambaForCausalLM(hf.MambaConfig(**SMALL | {"num_attention_heads": 1})), "recurrent"),
        (lambda: hf.MistralForCausalLM(hf.MistralConfig(**SMALL, sliding_window=8)), "sliding_attention"),
        (lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**SMALL)), "sliding_attention"),
        (
            lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=8, hidden_size=16, n_layer=1, n_head=2)),
            "tree mask",
        ),
        (
            lambda: hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=8, d_model=16, num_layers=1)),
            "decoder-only",
        ),
    ],
)
def test_b25_models_that_cannot_be_rolled_back_are_refused_when_the_backend_is_built(model, named):
    """Field case B25: refuse at construction, not at the first request, and never in silence."""
    built = model().eval()
    built.set_attn_implementation("eager")
    with pytest.raises(SpecproofError, match=named):
        HFBackend(built)


def test_the_conformance_call_sees_a_stale_cache():
    with pytest.raises(AssertionError, match="differ from a fresh pass"):
        check_backend(StaleBackend(HFBackend(tiny_model("llama", 7))))


def test_a_model_that_ignores_positions_is_refused():
    """The probe sees a forward that drops an argument: logits differ from recomputation."""
    model = tiny_model("llama", 7)
    inner = model.forward

    def forward(*args, position_ids=None, **kwargs):
        return inner(*args, **kwargs)

    model.forward = forward
    with pytest.raises(SpecproofError, match="tree mask, positions"):
        HFBackend(model)


def test_a_context_beyond_the_models_own_is_refused():
    with pytest.raises(SpecproofError, match="context=65"):
        HFBackend(tiny_model("llama", 7, context=64), context=65)
