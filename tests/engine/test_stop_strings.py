"""Stop strings and streams of text: what is given out adds up, and is cut where a person would cut it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.engine.text import StoppedText
from specproof.errors import SpecproofError
from specproof.stopping import commit
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams, TokenSequence

CAT = "猫".encode()


def wrapped(vocabulary, decoder):
    """A tokenizer of these tokens, after token 0 which ends a text."""
    vocabulary = {"<end>": 0} | {token: number for number, token in enumerate(vocabulary, 1)}
    inner = Tokenizer(models.WordLevel(vocabulary, "<end>"))
    inner.decoder = decoder
    inner.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


# "Ã©" and so on are how byte-level vocabularies write bytes; é is C3 A9, the cat E7 8C AB, and ÃÃ is never valid.
BYTES = wrapped(["a", "Ã", "©", "aÃ", "ç", "Į«", "b", "Ġ"], decoders.ByteLevel())
PIECES = wrapped(["a", "ab", "ba", "b", "aba", "c"], decoders.Fuse())
SPACED = wrapped(["▁a", "▁b", "b", "▁", *(f"<0x{byte:02X}>" for byte in CAT)], decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
))  # fmt: skip
# SentencePiece decodes a run of byte tokens as a whole, to nothing but replacements where its end is cut off; a
# letter after each character keeps runs apart.
UNITS = {
    "bytes": (
        BYTES,
        [*((token,) for token in range(6)), (5, 6), (2, 3)],
        ["a", "aa", "é", "aé", "éa", "猫", "猫a"],
    ),
    "pieces": (PIECES, [(token,) for token in range(7)], ["ab", "ba", "aba", "bb", "abab", "c", "ca", "aac"]),
    "spaced": (SPACED, [(0,), (1,), (2,), (3,), (4,), (5, 6, 7, 3)], ["a b", "b", " a", "猫", "b猫", "a ", "bb"]),
}


def naive(tokenizer, stream, params):
    """Output tokens, text and reason, from whole texts only."""
    for length in range(1, min(len(stream), params.max_tokens) + 1):
        output = stream[:length]
        text, before = (whole(tokenizer, part) for part in (output, output[:-1]))
        places = [i for stop in params.stop for i in range(len(text)) if text.startswith(stop, i)
                  and not before.startswith(stop, i)]  # fmt: skip
        if places and length >= params.min_tokens:
            return output, text[: min(places)], "stop"
        if output[-1] == 0:
            return output, decoded(tokenizer, output), "stop"
    output = stream[: params.max_tokens]
    return output, decoded(tokenizer, output), "length" if len(output) == params.max_tokens else None


def decoded(tokenizer, tokens):
    return tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def whole(tokenizer, tokens):
    return decoded(tokenizer, tokens).rstrip("\ufffd")


@pytest.mark.parametrize("kind", UNITS)
@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_b44_deltas_of_random_streams_add_up_to_the_text_cut_at_the_first_stop(kind, data):
    """Field cases B33 and B44: random tokens in random blocks, random stops, caps and minimal lengths."""
    tokenizer, units, stops = UNITS[kind]
    stream = [
        token for unit in data.draw(st.lists(st.sampled_from(units), min_size=4, max_size=14)) for token in unit
    ]
    cap = data.draw(st.integers(1, 16))
    params = SamplingParams(
        stop=data.draw(st.lists(st.sampled_from(stops), min_size=1, max_size=3)),
        max_tokens=cap,
        min_tokens=data.draw(st.integers(0, cap) | st.just(0)),
    )
    sequence = TokenSequence([3, 3], 2, params, 0, frozenset({0}))
    text, deltas, left = StoppedText(tokenizer, params), [], list(stream)
    while left and sequence.finish_reason is None:
        size = data.draw(st.integers(1, 5))
        commit(sequence, left[:size], 100, text.stopped)
        left = left[size:]
        deltas.append(text.take(sequence))
    output, expected, reason = naive(tokenizer, stream, params)
    assert (sequence.output, sequence.finish_reason) == (output, reason)
    if sequence.finish_reason is None:
        assert expected.startswith("".join(deltas))
        sequence.finish_reason = "length"  # as if this was all
        deltas.append(text.take(sequence))
    assert "".join(deltas) == expected == text.given
    assert "\ufffd" not in "".join(deltas[:-1]) or "\ufffd" in expected.rstrip("\ufffd")


def stream_of(tokenizer, tokens, sizes, **params):
    """Deltas of a stream of tokens that is committed in blocks of these sizes."""
    sequence = TokenSequence([1], 1, SamplingParams(**params), 0, frozenset({0}))
    text, deltas, place = StoppedText(tokenizer, sequence.params), [], 0
    for size in sizes:
        commit(sequence, tokens[place : place + size], 100, text.stopped)
        deltas.append(text.take(sequence))
        place += size
    return deltas, sequence


def test_what_may_become_a_stop_string_is_held_back_and_released_when_it_does_not():
    deltas, _ = stream_of(PIECES, [6, 1, 4, 6], [1, 1, 1, 1], stop=["abb", "bc"])  # c, a, b, c
    assert deltas == ["c", "", "", "a"]
    deltas, _ = stream_of(PIECES, [6, 1, 4, 1, 6], [1, 1, 1, 1, 1], stop=["abb"])  # c, a, b, a, c
    assert deltas == ["c", "", "", "ab", "ac"]


def test_what_is_held_back_at_the_cap_comes_out_with_the_last_delta():
    deltas, sequence = stream_of(PIECES, [6, 1, 4], [1, 2], stop=["abb"], max_tokens=3)
    assert deltas == ["c", "ab"]
    assert sequence.finish_reason == "length"


def test_of_overlapping_stop_strings_the_first_to_be_complete_ends_the_text():
    deltas, sequence = stream_of(PIECES, [6, 5, 1], [3], stop=["ba", "ab", "cabaa"])
    assert ("".join(deltas), sequence.output) == ("c", [6, 5])  # "ab" begins before "ba" in the token aba


def test_b33_a_stop_string_in_the_block_that_meets_the_cap():
    """Field case B33: block [7, 8, S, 5, 5, 5] with cap 5 stops, with cap 2 it has run out of length."""
    block = [4, 4, 6, 1, 1, 1]
    for cap, output, reason in ((5, 3, "stop"), (3, 3, "stop"), (2, 2, "length")):
        _, sequence = stream_of(PIECES, block, [6], stop=["c"], max_tokens=cap)
        assert (len(sequence.output), sequence.finish_reason) == (output, reason)


def test_min_tokens_lets_early_stop_strings_pass_for_good():
    deltas, sequence = stream_of(PIECES, [6, 1, 6, 4, 6], [5], stop=["c"], min_tokens=4)
    assert ("".join(deltas), len(sequence.output)) == ("cacb", 5)


@pytest.mark.parametrize("nodes", [1, 4])
def test_b44_an_engine_streams_what_it_returns(nodes):
    """Field cases B33 and B44: the target drafts for itself, so blocks are long, and characters come apart."""
    model = tiny_model("llama", 9)
    for seed in range(12):
        params = SamplingParams(seed=seed, max_tokens=20, stop=["é", "ab"], temperature=1.3)
        drafter = ModelDrafter(HFBackend(model), nodes)
        results = list(Engine(HFBackend(model), drafter, tokenizer=BYTES, eos=[0]).stream([1, 2], params))
        output, text, reason = naive(BYTES, list(results[-1].tokens), params)
        assert (list(results[-1].tokens), results[-1].finish_reason) == (output, reason)
        assert "".join(result.delta for result in results) == results[-1].text == text
        assert sum(result.finish_reason is not None for result in results) == 1
        assert results[-1].stats.tokens == len(output)


def test_stop_strings_without_a_tokenizer_are_refused():
    engine = Engine(HFBackend(tiny_model("llama", 9)))
    with pytest.raises(SpecproofError, match="needs a tokenizer; give stop_token_ids instead"):
        engine.generate([[1]], SamplingParams(stop=["a"]))
