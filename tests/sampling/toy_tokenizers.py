"""Tokenizers of four tokens whose texts are easy to see, 0 being the end of a text."""

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast


def pieces(*words):
    """Token n decodes to the nth word, with nothing between them."""
    inner = Tokenizer(models.WordLevel({"<end>": 0} | {word: i for i, word in enumerate(words, 1)}, "<end>"))
    inner.decoder = decoders.Fuse()
    return _wrapped(inner)


def utf8_bytes(*values):
    """Token n decodes to the nth byte, so that characters beyond ASCII span tokens."""
    inner = Tokenizer(models.BPE({"<end>": 0} | {_letter(value): i for i, value in enumerate(values, 1)}, []))
    inner.decoder = decoders.ByteLevel()
    return _wrapped(inner)


def _letter(value):
    """What byte-level vocabularies write for a byte: itself where it prints, else a letter above 255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if value in printable:
        return chr(value)
    return chr(256 + [other for other in range(256) if other not in printable].index(value))


def _wrapped(inner):
    inner.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


def occurrences(tokenizer, tokens, stops):
    """Where stop strings stand in the text of some tokens, of which only whole characters count."""
    text = tokenizer.decode(tokens, skip_special_tokens=True).rstrip("\ufffd")
    return {(place, stop) for stop in stops for place in range(len(text)) if text.startswith(stop, place)}


def stopped_by(tokenizer, params):
    """The naive question: did the last of these output tokens complete a stop string, late enough?"""

    def stopped(output):
        before = occurrences(tokenizer, output[:-1], params.stop)
        new = occurrences(tokenizer, output, params.stop) - before
        return bool(new) and len(output) >= params.min_tokens

    return stopped
