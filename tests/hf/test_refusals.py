"""What cannot be honoured is one line that names it; nothing is passed over."""

import pytest
import torch
import transformers
from transformers.generation.logits_process import LogitsProcessorList

import specproof.hf
from specproof import SpecproofError
from specproof.hf import inputs
from specproof.testing.tiny import tiny_model

IDS = torch.tensor([[1, 2, 3, 4]])
OTHER = tiny_model("llama", 9, seed=1)


@pytest.fixture
def llama():
    return tiny_model("llama", 12, seed=3)


def ask(model, ids=IDS, **options):
    options = {"max_new_tokens": 3, "pad_token_id": 0} | options
    return model.generate(ids, **options, custom_generate=specproof.hf.generate)


def mask(*ones):
    return torch.tensor([ones])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drafter": "foo"}, "unknown drafter 'foo'; choose one of"),
        ({"rule": "foo"}, "unknown rule 'foo'"),
        ({"rule": "threshold"}, "allow_lossy"),
        ({"num_beams": 4}, "num_beams=4 is beam search, .*: use num_beams=1"),
        ({"prompt_lookup_num_tokens": 4}, "use drafter='ngram'"),
        ({"drafter": "model"}, "drafter='model' needs a smaller transformers model: give draft_model="),
        ({"draft_model": OTHER}, "drafter 'ngram' takes no draft model"),
        ({"drafter": "model", "draft_model": OTHER}, "vocabulary of 9 tokens and the target one of 12"),
        ({"drafter": "model", "draft_model": "folder"}, "draft_model='folder' is no model: load it"),
        ({"seed": -1, "do_sample": True}, "seed=-1 is not allowed"),
        ({"seed": 1.5}, "seed=1.5 is not allowed"),
        ({"budget": -1}, "budget=-1"),
        ({"attention_mask": mask(1, 0, 1, 1)}, "row 0 of attention_mask has a 0 after a 1: pad on the left only"),
        ({"attention_mask": mask(1, 1, 1, 0)}, "row 0 of attention_mask has a 0 after a 1: pad on the left only"),
        ({"attention_mask": mask(0, 0, 0, 0)}, "the prompt is empty"),
        ({"position_ids": mask(0, 2, 3, 4)}, "position_ids of your own"),
        ({"inputs_embeds": torch.zeros(1, 4, 16).double()}, "inputs_embeds cannot be passed on"),
        ({"max_new_tokens": 61}, "row 0 may come to 65 tokens and the context takes 64: ask for at most 60"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores=True"),
        ({"suppress_tokens": list(range(12))}, "row 0: no next token after 0 tokens"),
    ],
    ids=str,
)
def test_one_line_says_what_is_wrong(llama, options, message):
    with pytest.raises(SpecproofError, match=message) as error:
        ask(llama, **options)
    assert "\n" not in str(error.value)


def test_an_encoder_decoder_model_is_refused():
    sizes = {"vocab_size": 12, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    with pytest.raises(SpecproofError, match="is an encoder-decoder model; give a decoder-only one"):
        ask(model)


def test_dropout_is_refused(llama):
    with pytest.raises(SpecproofError, match=r"training mode.*call model\.eval"):
        ask(llama.train())


def test_an_assistant_model_that_transformers_keeps_back_is_refused(llama):
    with pytest.raises(SpecproofError, match="use drafter='model', draft_model="):
        ask(llama, assistant_model=llama)


def test_a_cache_of_the_callers_own_is_refused(llama):
    with pytest.raises(SpecproofError, match="a cache cannot be given"):
        ask(llama, cache=transformers.DynamicCache(config=llama.config))


def test_a_streamer_takes_one_row(llama):
    class Silent:
        def put(self, value):
            pass

        def end(self):
            raise AssertionError("never begun")

    with pytest.raises(SpecproofError, match="a streamer takes one row, and there are 2"):
        ask(llama, IDS.repeat(2, 1), streamer=Silent())


def test_rows_that_end_apart_need_something_to_fill_them(llama):
    with pytest.raises(SpecproofError, match="give pad_token_id"):
        ask(llama, IDS.repeat(2, 1), pad_token_id=None, max_time=60.0)


def test_processors_that_are_not_known_from_the_configuration_are_refused():
    """A later transformers may prepare another warper: it must not act twice, or not at all."""
    config = transformers.GenerationConfig(do_sample=True, temperature=0.5)
    with pytest.raises(SpecproofError, match=r"prepares .* specproof expects \['TemperatureLogitsWarper'\]"):
        inputs.without_warpers(LogitsProcessorList([transformers.TopKLogitsWarper(3)]), config)


def test_the_frame_that_is_asked_is_that_of_generate():
    assert inputs.kept_back("streamer") is None
