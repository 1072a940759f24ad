"""The default model: a padded batch of three prompts, against transformers' own loop."""

import pytest

import specproof.hf
from specproof.engine.loading import load_model, load_tokenizer

# In float32 a wide forward may round otherwise than a narrow one. On these prompts the two
# likeliest logits are never closer than 0.01, so the texts agree; another prompt may have a nearer tie.
PROMPTS = [
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,",
    "Once upon a time there was a small fox who",
]


@pytest.mark.slow
@pytest.mark.parametrize("drafter", ["none", "ngram"])
def test_three_prompts_have_the_text_of_transformers(drafter):
    model, tokenizer = load_model("default"), load_tokenizer("default")
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    options = {"max_new_tokens": 32, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    expected = model.generate(**inputs, **options)
    got = model.generate(**inputs, **options, custom_generate=specproof.hf.generate, drafter=drafter)
    assert got.tolist() == expected.tolist()
