"""Pieces of a stream add up to the whole text, and no character is shown before it is whole."""

import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specproof.engine.text import Detokenizer


def byte_tokenizer():
    """One token a byte: every character beyond ASCII spans tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner)


TEXT = "naïve 猫 – 🐈 x\n  two spaces  ünd ende"


def test_b44_pieces_of_any_size_add_up_to_the_text():
    """Field case B44: several tokens a step, characters split over tokens, no replacement characters."""
    tokenizer = byte_tokenizer()
    tokens = tokenizer(TEXT)["input_ids"]
    assert len(tokens) > len(TEXT)
    for seed in range(50):
        generator, detokenizer, pieces, place = random.Random(seed), Detokenizer(tokenizer), [], 0
        while place < len(tokens):
            size = generator.randint(0, 4)
            pieces.append(detokenizer.push(tokens[place : place + size]))
            place += size
        pieces.append(detokenizer.finish())
        assert "".join(pieces) == TEXT
        assert not any("\ufffd" in piece for piece in pieces)


def test_an_unfinished_character_comes_out_at_the_end():
    tokenizer = byte_tokenizer()
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(tokenizer("a猫")["input_ids"][:-1]) == ""
    assert detokenizer.finish().startswith("a")
    assert detokenizer.finish() == ""


def test_words_keep_their_spaces(word_tokenizer):
    detokenizer = Detokenizer(word_tokenizer)
    pieces = [detokenizer.push([token]) for token in (1, 2, 3, 0)]
    assert "".join(pieces) == "a b c"
