"""Long texts are read in pieces: the logits are those of one pass, and no mask outgrows a piece."""

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.none import empty_draft
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_backend
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

VOCABULARY = 7
TREE = Tree((-1, 0, -1, 1))


def sequence(length, shift=0):
    tokens = [(3 * i * i + i + shift) % VOCABULARY for i in range(length)]
    return TokenSequence(tokens, length, SamplingParams(), 0)


def check(model, batch, draft, logits):
    for b, one in enumerate(batch):
        for node in range(-1, len(draft.trees[b])):
            text = one.tokens + [int(draft.tokens[b, n]) for n in draft.trees[b].path(node)]
            assert torch.allclose(logits[b, node + 1], recomputed_logits(model, text), atol=1e-10)


@pytest.mark.parametrize("chunk", [1, 3, 512])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chunks_of_any_size_give_the_logits_of_recomputation(architecture, chunk):
    """Ragged texts: some miss many tokens, one misses few, one joins late; with trees and with empty drafts."""
    model = tiny_model(architecture, VOCABULARY)
    backend = HFBackend(model, chunk=chunk)
    batch = [sequence(length, length) for length in (17, 1, 4, 30)]
    tokens = torch.tensor([[5, 6, 0, 1]] * 4)
    draft = Draft((TREE, Tree.chain(0), Tree.chain(3), TREE), tokens, None, "point")
    check(model, batch, draft, backend.forward(batch, draft).logits)
    paths = [(2,), (), (0, 1), (0, 1, 3)]
    for one, path in zip(batch, paths, strict=True):
        one.tokens += [int(tokens[0, node]) for node in path] + [3]
    backend.keep(batch, paths)
    batch.append(sequence(23))
    check(model, batch, empty_draft(5), backend.forward(batch, empty_draft(5)).logits)
    assert [backend.store.missing(one) for one in batch] == [0] * 5


@pytest.mark.parametrize("chunk", [1, 3])
def test_the_backend_contract_holds_in_pieces(chunk):
    check_backend(HFBackend(tiny_model("llama", VOCABULARY), chunk=chunk))


def test_masks_stay_within_a_piece_however_long_the_text():
    """Counted by a spy on the pass: a mask has at most (chunk + nodes) x (length + nodes) entries a row."""
    backend = HFBackend(tiny_model("llama", VOCABULARY, context=600), chunk=16)
    sizes, run = [], backend._run

    def spy(layout):
        sizes.append(layout.mask[0].numel())
        return run(layout)

    backend._run = spy
    draft = Draft((TREE,), torch.tensor([[1, 2, 3, 4]]), None, "point")
    backend.forward([sequence(500)], draft)
    assert len(sizes) == 32  # 31 pieces of 16, then 4 tokens with the tree
    assert max(sizes) <= (16 + 4) * (500 + 4)
    whole = HFBackend(tiny_model("llama", VOCABULARY, context=600), chunk=512)
    run, whole._run = whole._run, spy
    whole.forward([sequence(500)], draft)
    assert sizes[-1] == 504 * 504, "the spy does not see what a text read at once costs"


def test_a_failure_between_two_pieces_leaves_nothing_behind():
    model = tiny_model("llama", VOCABULARY)
    backend = HFBackend(model, chunk=4)
    run, turns = backend._run, iter([True, True, False])
    backend._run = lambda layout: run(layout) if next(turns) else (_ for _ in ()).throw(RuntimeError("lost"))
    one = sequence(20)
    with pytest.raises(RuntimeError, match="lost"):
        backend.forward([one], empty_draft(1))
    assert backend.store.rows == []
    backend._run = run
    check(model, [one], empty_draft(1), backend.forward([one], empty_draft(1)).logits)


def test_a_chunk_of_nothing_is_refused():
    with pytest.raises(SpecproofError, match="chunk=0"):
        HFBackend(tiny_model("llama", VOCABULARY), chunk=0)


def test_padding_takes_one_entry_however_wide_the_pass():
    """A row that takes no part lies between two that read 100 tokens: the store need not grow for it."""
    model = tiny_model("llama", VOCABULARY, context=600)
    backend = HFBackend(model)
    first, long, last = sequence(1), sequence(250), sequence(2)
    for one in (first, long, last):
        backend.forward([one], empty_draft(1))
        one.tokens.append(3)
        backend.keep([one], [()])
    capacity = backend.store._keys[0].shape[2]
    for one in (first, last):
        one.tokens += [4] * 100
    outer = [first, last]
    check(model, outer, empty_draft(2), backend.forward(outer, empty_draft(2)).logits)
    assert backend.store._keys[0].shape[2] == capacity == 256
    check(model, [long], empty_draft(1), backend.forward([long], empty_draft(1)).logits)
