"""Shared fixtures: tiny models in float64, and a model folder with a tokenizer, all built in code."""

import pytest
import torch

from specproof.drafters.dflash.checkpoint import save_dflash
from specproof.drafters.eagle.checkpoint import save_head
from specproof.drafters.medusa.checkpoint import save_medusa
from specproof.testing.tiny import tiny_dflash, tiny_head, tiny_medusa, tiny_model


@pytest.fixture(autouse=True, scope="session")
def _threads():
    # Tiny matrices: more threads only wait for one another.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def word_tokenizer():
    """One token a word; token 0 ends a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<end>", "a", "b", "c", "d", "e", "f", "g"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<end>")


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, word_tokenizer):
    """A folder with a tiny Llama of eight tokens, as `save_pretrained` leaves it."""
    return _save(tmp_path_factory.mktemp("model"), word_tokenizer, vocabulary=8, seed=0)


@pytest.fixture(scope="session")
def draft_folder(tmp_path_factory, word_tokenizer):
    """Another tiny Llama with the same tokenizer."""
    return _save(tmp_path_factory.mktemp("draft"), word_tokenizer, vocabulary=8, seed=1)


@pytest.fixture(scope="session")
def wider_folder(tmp_path_factory, word_tokenizer):
    """A tiny Llama with another vocabulary."""
    return _save(tmp_path_factory.mktemp("wider"), word_tokenizer, vocabulary=9, seed=1)


@pytest.fixture(scope="session")
def head_folder(tmp_path_factory, model_folder):
    """An untrained EAGLE-3 head for the model of `model_folder`, in the speculators format."""
    folder = tmp_path_factory.mktemp("head")
    head = tiny_head(tiny_model("llama", 8, 0, context=32), [1, 2, 4, 5, 7], length=3, target=model_folder)
    save_head(head, folder, torch.float64)
    return str(folder)


@pytest.fixture(scope="session")
def medusa_folder(tmp_path_factory, model_folder):
    """Untrained Medusa heads for the model of `model_folder`, in the speculators format."""
    folder = tmp_path_factory.mktemp("medusa")
    save_medusa(
        tiny_medusa(tiny_model("llama", 8, 0, context=32), [1, 2, 4, 5, 7], heads=3), folder, torch.float64
    )
    return str(folder)


@pytest.fixture(scope="session")
def dflash_folder(tmp_path_factory, model_folder):
    """An untrained DFlash head for the model of `model_folder`, in the speculators format."""
    folder = tmp_path_factory.mktemp("dflash")
    save_dflash(tiny_dflash(tiny_model("llama", 8, 0, context=32), [1, 2, 4, 5, 7]), folder, torch.float64)
    return str(folder)


def _save(folder, tokenizer, vocabulary, seed):
    model = tiny_model("llama", vocabulary, seed, context=32)
    model.generation_config.eos_token_id = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
