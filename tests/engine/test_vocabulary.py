"""Tokenizers: the same tokens, what they share where they differ, and the law with toy ones."""

from functools import partial

import pytest

from specproof import SpecproofError
from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.engine.vocabulary import check_same_tokens, in_target_tokens, shared_tokens
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams


def tokenizer(words, kind="words"):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbers = {word: i for i, word in enumerate(words)}
    if kind == "words":
        inner = Tokenizer(models.WordLevel(numbers, unk_token=words[0]))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        # Every word is merged from its last letter to its first, so that each merge is in the vocabulary.
        inner = Tokenizer(models.BPE(numbers, [(w[0], w[1:]) for w in words if len(w) > 1 and w[0] != "<"]))
        byte_level = kind == "bytes"
        split = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Metaspace()
        inner.pre_tokenizer, inner.decoder = split, decoders.ByteLevel() if byte_level else decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token=words[0], eos_token=words[0])


WORDS = ["<end>", "a", "b", "c", "d", "e", "f", "g"]


@pytest.mark.parametrize("other", [WORDS[:6], [*WORDS, "h", "i"]], ids=["smaller", "larger"])
def test_tokens_that_only_one_has_are_no_difference(other):
    check_same_tokens(tokenizer(WORDS), tokenizer(other))
    check_same_tokens(tokenizer(other), tokenizer(WORDS))


def test_b38_swapped_strings_are_refused_by_the_first_and_with_a_way_out():
    """Field case B38: same size, tokens 2 and 5 swapped."""
    swapped = ["<end>", "a", "e", "c", "d", "b", "f", "g"]
    with pytest.raises(SpecproofError, match=r"token 2 'b' is 5 there; .*--draft-vocabulary intersection"):
        check_same_tokens(tokenizer(WORDS), tokenizer(swapped))
    with pytest.raises(SpecproofError, match="token 2 'b' is absent there"):
        check_same_tokens(tokenizer(WORDS), tokenizer(["<end>", "a", "x"]))


def test_tokenizers_of_one_kind_share_entries():
    other = tokenizer(["<end>", "g", "x", "a", "yy"])
    assert shared_tokens(tokenizer(WORDS), other) == {0: 0, 7: 1, 1: 3}


def test_b38_byte_level_and_metaspace_tokens_are_compared_by_what_they_add():
    """Field case B38: "Ġb" and "▁b" are one text; "b" is another."""
    ours = tokenizer(["<end>", "a", "b", "Ġ", "Ġb", "Ġa"], "bytes")
    theirs = tokenizer(["<end>", "▁", "▁b", "b", "▁a", "a"], "metaspace")
    assert shared_tokens(ours, theirs) == {0: 0, 1: 5, 2: 3, 3: 1, 4: 2, 5: 4}


@pytest.mark.parametrize("rule", ["block", "traversal"])
def test_two_toy_tokenizers_keep_the_targets_law(rule):
    """Draft tokens c, a, g and the end are shared; other target words are unknown to the draft model."""
    model = tiny_model("llama", 8, seed=0)
    own = HFBackend(tiny_model("llama", 6, seed=1))
    words = tokenizer(["<end>", "g", "x", "c", "a", "y"])
    draft = in_target_tokens(own, 8, tokenizer(WORDS), words, "intersection")
    engine = Engine(HFBackend(model), ModelDrafter(draft, 2), rule, noise=EnumeratingNoise(), max_batch=256)
    params = SamplingParams(top_k=3, max_tokens=3)
    result = audit_engine(engine, partial(recomputed_logits, model), [2, 1], params)
    assert result.ok, str(result)
    assert draft.shared == {0: 0, 1: 4, 3: 3, 7: 1}
    assert draft.spelling(2) == (0,)


def test_a_token_is_spelled_in_the_draft_models_tokens():
    ours = tokenizer(["<end>", "a", "b", "ab"], "bytes")
    theirs = tokenizer(["<end>", "b", "a"], "bytes")
    draft = in_target_tokens(HFBackend(tiny_model("llama", 3)), 6, ours, theirs, "intersection")
    assert [draft.spelling(token) for token in range(6)] == [(0,), (2,), (1,), (2, 1), (0,), (0,)]


def test_an_unknown_choice_and_one_without_a_draft_model_are_refused(model_folder, draft_folder):
    with pytest.raises(SpecproofError, match="unknown vocabulary 'both'; choose one of: intersection, same"):
        load_engine(model_folder, drafter="model", draft_model=draft_folder, vocabulary="both")
    with pytest.raises(SpecproofError, match="'intersection' needs a draft model"):
        load_engine(model_folder, vocabulary="intersection")
