"""A tokenizer of six tokens, and what a regular expression allows, by trying every continuation."""

import re
from functools import lru_cache
from itertools import product

from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

END = 0
WORDS = ("<end>", "a", "b", "c", "ab")
PATTERNS = ("(ab)*c", "(ab)*", "a(b|c)?", "a{1,3}b*", "(aa|b)+", "abc", "[^a]*a", "(a|ab)(c|bcc)?")


def letters(special=()):
    """The tokens WORDS; a token's number is its place there. `special` ones come after them."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<end>", *special])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


def text(tokens):
    return "".join(WORDS[token] for token in tokens)


@lru_cache(maxsize=100_000)
def begins(pattern, beginning):
    """Whether some text of the pattern begins so; those of PATTERNS need at most three more letters."""
    rests = ("".join(rest) for n in range(4) for rest in product("abc", repeat=n))
    return any(re.fullmatch(pattern, beginning + rest) for rest in rests)


def allowed(pattern, output):
    """The tokens that may follow these tokens."""
    if END in output:
        return set()
    legal = {token for token in range(1, len(WORDS)) if begins(pattern, text(output) + WORDS[token])}
    return legal | ({END} if re.fullmatch(pattern, text(output)) else set())


def reachable(pattern, output, path):
    """Whether every token of a path is allowed after those before it, and none ends the text."""
    return END not in path and all(token in allowed(pattern, [*output, *path[:i]]) for i, token in enumerate(path))
