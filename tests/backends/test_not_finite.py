"""Logits and entries that are not finite stay where they belong: with the node, its descendants, its text.

One token's embedding is NaN, so whatever follows that token in a text is NaN, and nothing else may be.
"""

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.none import empty_draft
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

VOCABULARY, BAD = 7, 6
TREE = Tree((-1, 0, -1, 1, 2))


def sequence(tokens):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(), 0)


def broken(architecture="llama", attention="sdpa", bad=BAD, **options):
    """A model and its backend; the token breaks after the backend has probed the model."""
    model = tiny_model(architecture, VOCABULARY, attention=attention)
    backend = HFBackend(model, **options)
    with torch.no_grad():
        model.get_input_embeddings().weight[bad] = torch.nan
    return model, backend


def check(model, batch, draft, logits, tolerance=1e-10):
    """Every row equals recomputation, which is NaN after the bad token and nowhere else."""
    for b, one in enumerate(batch):
        for node in range(-1, len(draft.trees[b])):
            text = one.tokens + [int(draft.tokens[b, n]) for n in draft.trees[b].path(node)]
            expected = recomputed_logits(model, text)
            found = logits[b, node + 1]
            assert torch.allclose(found, expected, atol=tolerance, equal_nan=True), (b, node)


def commit(backend, batch):
    """One more token each, and nothing of the draft."""
    for one in batch:
        one.tokens.append(1)
    backend.keep(batch, [()] * len(batch))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_broken_node_breaks_its_descendants_only_and_later_steps_not_at_all(architecture, attention):
    model, backend = broken(architecture, attention)
    tolerance = 1e-10 if attention == "sdpa" else 1e-6
    batch = [sequence([1, 2, 3]), sequence([4])]
    tokens = torch.tensor([[BAD, 2, 3, 4, BAD], [1, BAD, 2, 3, 4]])
    draft = Draft((TREE, TREE), tokens, None, "point")
    check(model, batch, draft, backend.forward(batch, draft).logits, tolerance)
    for one, path, extra in zip(batch, ((2,), (0,)), (1, 5), strict=True):
        one.tokens += [int(tokens[batch.index(one), node]) for node in path] + [extra]
    backend.keep(batch, [(2,), (0,)])
    # An empty draft; then a longer row beside a shorter one, so that leftovers lie in what is read.
    check(model, batch, empty_draft(2), backend.forward(batch, empty_draft(2)).logits, tolerance)
    commit(backend, batch)
    batch.append(sequence([2] * 20))
    check(model, batch, empty_draft(3), backend.forward(batch, empty_draft(3)).logits, tolerance)
    assert all(bool(store.isfinite().all()) for store in (*backend.store._keys, *backend.store._values))


def test_a_tree_that_grows_below_a_broken_node():
    """Nodes scored in a later pass of the same step still see that their ancestor is broken."""
    model, backend = broken()
    one = sequence([1, 2, 3])
    tokens = torch.tensor([[BAD, 2, 3, 4, 5]])
    first = Draft((Tree((-1, 0, -1)),), tokens[:, :3], None, "point")
    draft = Draft((TREE,), tokens, None, "point")
    logits = torch.cat([backend.forward([one], first).logits, backend.forward([one], draft, [4]).logits], 1)
    check(model, [one], draft, logits)


def test_a_broken_node_that_is_kept_breaks_all_that_follows():
    model, backend = broken()
    one = sequence([1, 2, 3])
    draft = Draft((TREE,), torch.tensor([[1, BAD, 2, 3, 4]]), None, "point")
    backend.forward([one], draft)
    one.tokens += [1, BAD, 3]
    backend.keep([one], [(0, 1)])
    for _ in range(3):
        assert bool(backend.forward([one], empty_draft(1)).logits.isnan().all())
        commit(backend, [one])
    backend.free([one])
    fresh = sequence([5, 4])
    check(model, [fresh], empty_draft(1), backend.forward([fresh], empty_draft(1)).logits)


@pytest.mark.parametrize("chunk", [2, 512])
def test_a_broken_prompt_breaks_its_own_text_and_no_other(chunk):
    model, backend = broken(chunk=chunk)
    batch = [sequence([1, BAD, 2, 3, 4]), sequence([5, 4, 3])]
    draft = Draft((TREE, TREE), torch.tensor([[1, 2, 3, 4, 5]] * 2), None, "point")
    check(model, batch, draft, backend.forward(batch, draft).logits)


def test_padding_that_is_not_finite_is_seen_by_nobody():
    """Padding is token 0; here that one is broken, in rows of all lengths and one that takes no part."""
    model, backend = broken(bad=0)
    batch = [sequence([1] * 9), sequence([2, 3]), sequence([4])]
    check(model, batch, empty_draft(3), backend.forward(batch, empty_draft(3)).logits)
    commit(backend, batch)
    draft = Draft((Tree.chain(0), TREE), torch.tensor([[1, 2, 3, 4, 5]] * 2), None, "point")
    outer = [batch[0], batch[2]]
    check(model, outer, draft, backend.forward(outer, draft).logits)
    commit(backend, outer)
    check(model, batch, empty_draft(3), backend.forward(batch, empty_draft(3)).logits)


def test_an_entry_that_overflows_breaks_its_node_though_its_own_state_is_finite():
    """A key can be infinite where the hidden state is not: the node sees itself, so it is broken as well."""
    model, backend = broken()
    with torch.no_grad():
        model.get_input_embeddings().weight[BAD] = 1.0
    layer = model.model.layers[0].self_attn.k_proj
    plain = layer.forward
    mark = model.model.layers[0].input_layernorm(model.get_input_embeddings().weight[BAD])

    def overflowing(hidden):
        return plain(hidden).masked_fill((hidden == mark).all(-1, keepdim=True), torch.inf)

    layer.forward = overflowing
    one = sequence([1, 2])
    draft = Draft((TREE,), torch.tensor([[BAD, 2, 3, 4, 5]]), None, "point")
    check(model, [one], draft, backend.forward([one], draft).logits)
