"""From parameters to processors, in the order of transformers; temperature and filters come after them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from specproof.errors import SpecproofError
from specproof.sampling.bans import BadWords, Custom, LogitBias, MinTokens
from specproof.sampling.grammar import compile_grammar
from specproof.sampling.penalties import OutputPenalty, RepetitionPenalty
from specproof.types import Processor, SamplingParams


def ends_for(params: SamplingParams, eos: Collection[int]) -> frozenset[int]:
    """Tokens that end a text under these parameters, of a model whose end-of-text tokens are `eos`."""
    return frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else frozenset(eos))


def processors_for(
    params: SamplingParams, vocabulary: int, tokenizer: Any = None, ends: Collection[int] = ()
) -> tuple[Processor, ...]:
    """What the parameters do to logits; empty for most requests. Made once for each sequence.

    Args:
        params: of the request.
        vocabulary: number of the target's tokens.
        tokenizer: for bad words that are given as text, and for structured output.
        ends: tokens that end the text, see `ends_for`.

    Raises:
        SpecproofError: a token outside the vocabulary, or text without a tokenizer.
    """
    made: list[Processor] = []
    if params.logit_bias:
        _check("logit_bias", params.logit_bias, vocabulary)
        made.append(LogitBias(params.logit_bias))
    if params.repetition_penalty != 1:
        made.append(RepetitionPenalty(params.repetition_penalty))
    if params.presence_penalty or params.frequency_penalty:
        made.append(OutputPenalty(params.presence_penalty, params.frequency_penalty))
    if params.bad_words:
        words = tuple(dict.fromkeys(each for word in params.bad_words for each in _spellings(word, tokenizer)))
        _check("bad_words", [token for word in words for token in word], vocabulary)
        made.append(BadWords(words))
    _check("stop_token_ids", params.stop_token_ids, vocabulary)
    if params.min_tokens:
        made.append(MinTokens(params.min_tokens))
    made += [Custom(function) for function in params.processors]
    # Last, so that nothing adds mass again to what it forbids.
    made += [compile_grammar(kind, definition, tokenizer, ends) for kind, definition in params.structure.items()]
    return tuple(made)


def _spellings(word: str | tuple[int, ...], tokenizer: Any) -> list[tuple[int, ...]]:
    """A word's tokens: at the start of a text, and after a space where that is another spelling."""
    if not isinstance(word, str):
        return [tuple(word)]
    if tokenizer is None:
        raise SpecproofError(f"bad_words: the text {word!r} needs a tokenizer; give its tokens instead")
    texts = (word.lstrip(), " " + word.lstrip())
    spelled = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    # A token for whatever is unknown is not the word: forbidding it would forbid something else.
    if not all(spelled) or any(tokenizer.unk_token_id in tokens for tokens in spelled):
        raise SpecproofError(f"bad_words: {word!r} has no tokens; give text that the tokenizer knows")
    return spelled


def _check(name: str, tokens: Collection[int], vocabulary: int) -> None:
    for token in tokens:
        if not 0 <= token < vocabulary:
            raise SpecproofError(f"{name}: token {token} is not in the vocabulary, 0 to {vocabulary - 1}")
