"""model.generate with specproof's loop: the same text as transformers' own at temperature 0."""

import gc
import weakref

import pytest
import torch
from transformers import LogitsProcessor, StoppingCriteria, StoppingCriteriaList
from transformers.generation.stopping_criteria import StopStringCriteria

import specproof.hf
from specproof.backends import hf as backend
from specproof.hf.lent import lend
from specproof.hf.rows import Prepared
from specproof.sampling import warp_next
from specproof.testing.tiny import tiny_model

VOCABULARY = 12
PROMPTS = [[1, 2, 3, 1, 2, 3, 1], [4, 5], [7, 8, 9, 3]]
PAD = 0


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def model(request):
    return tiny_model(request.param, VOCABULARY, seed=3)


@pytest.fixture(scope="module")
def llama():
    return tiny_model("llama", VOCABULARY, seed=3)


@pytest.fixture(scope="module")
def draft():
    return tiny_model("llama", VOCABULARY, seed=4)


def padded(prompts=PROMPTS, junk=PAD):
    width = max(map(len, prompts))
    ids = [[junk] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def both(model, inputs=None, ours=None, **options):
    """The text of transformers' loop and of ours."""
    options = {"pad_token_id": PAD, "max_new_tokens": 12, "do_sample": False} | options
    inputs = inputs or padded()
    expected = model.generate(**inputs, **options)
    got = model.generate(**inputs, **options, custom_generate=specproof.hf.generate, **(ours or {}))
    return expected, got


def same(model, inputs=None, ours=None, **options):
    expected, got = both(model, inputs, ours, **options)
    assert got.tolist() == expected.tolist()
    assert got.dtype == expected.dtype
    return got


@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_a_padded_batch_has_the_text_of_transformers(model, draft, drafter):
    same(model, ours={"drafter": drafter, "draft_model": draft if drafter == "model" else None})


def test_padding_is_not_read(llama):
    """What stands under a zero of the mask changes nothing but itself."""
    width = max(map(len, PROMPTS))
    clean = same(llama)[:, width:]
    assert same(llama, padded(junk=11))[:, width:].tolist() == clean.tolist()


@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_ends_are_several_and_rows_end_one_before_another(model, draft, drafter):
    plain = model.generate(**padded(), pad_token_id=PAD, max_new_tokens=12, do_sample=False)
    outputs = plain[:, max(map(len, PROMPTS)) :].tolist()
    ends = [outputs[0][2], outputs[1][6]]
    ours = {"drafter": drafter, "draft_model": draft if drafter == "model" else None}
    got = same(model, ours=ours, eos_token_id=ends, max_new_tokens=14)
    assert got[0, -1] == PAD  # the first row ended early and was filled up


def test_the_pad_token_is_the_end_token_if_none_is_given(llama):
    plain = llama.generate(**padded(), pad_token_id=PAD, max_new_tokens=12, do_sample=False)
    same(llama, eos_token_id=int(plain[0, max(map(len, PROMPTS)) + 2]), pad_token_id=None)


FIELDS = {
    "min_new_tokens": {"min_new_tokens": 8},
    "min_length": {"min_length": 14},
    "max_length": {"max_length": 11, "max_new_tokens": None},
    "max_new_tokens": {"max_new_tokens": 3},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "bad_words_ids": {"bad_words_ids": [[5], [3, 1], [1, 2], [11, 10]]},
    "sequence_bias": {"sequence_bias": {(5,): 1.5, (1, 2): -4.0}},
    "forced_bos_token_id": {"forced_bos_token_id": 6},
    "forced_eos_token_id": {"forced_eos_token_id": 6},
    "suppress_tokens": {"suppress_tokens": [1, 2, 3, 5]},
    "begin_suppress_tokens": {"begin_suppress_tokens": [1, 2, 3, 5, 10]},
    "exponential_decay_length_penalty": {"exponential_decay_length_penalty": (2, 1.6)},
    "renormalize_logits": {"renormalize_logits": True, "repetition_penalty": 2.0},
    "eos_token_id": {"eos_token_id": [9, 10]},
    "num_return_sequences": {"num_return_sequences": 1},
    "pad_token_id": {"pad_token_id": 11},
    "use_cache": {"use_cache": False},
    "cache_implementation": {"cache_implementation": "static"},
    # Filters that do not act on the likeliest token.
    "temperature": {"temperature": 0.5, "top_k": 3, "top_p": 0.4, "min_p": 0.3},
}
NO_DIFFERENCE = {"renormalize_logits", "num_return_sequences", "pad_token_id", "use_cache"}


@pytest.mark.filterwarnings("ignore::UserWarning")  # transformers: filters without sampling
@pytest.mark.parametrize("drafter", ["ngram", "model"])
@pytest.mark.parametrize("field", FIELDS)
def test_each_field_acts_as_in_transformers(llama, draft, field, drafter):
    ends = {"eos_token_id": [5, 8]} | FIELDS[field]
    same(llama, ours={"drafter": drafter, "draft_model": draft if drafter == "model" else None}, **ends)
    if field == "forced_bos_token_id":  # acts on prompts of one token only
        same(llama, {"input_ids": torch.tensor([[3], [4]])}, **ends)


def test_the_fields_that_are_compared_do_something(llama):
    """Else the comparison above could not fail."""
    one = {"input_ids": torch.tensor([[3], [4]])}
    for field, options in FIELDS.items():
        if field in NO_DIFFERENCE | {"temperature", "cache_implementation"}:
            continue
        inputs = one if field == "forced_bos_token_id" else padded()
        options = {"pad_token_id": PAD, "max_new_tokens": 12, "eos_token_id": [5, 8], "do_sample": False} | options
        plain = options | dict.fromkeys(FIELDS[field]) | {"max_new_tokens": 12}
        plain["eos_token_id"] = [5, 8]
        assert llama.generate(**inputs, **options).tolist() != llama.generate(**inputs, **plain).tolist(), field


def test_several_returned_sequences_stand_beside_one_another(llama):
    options = {"num_return_sequences": 3, "do_sample": True, "top_k": 0, "max_new_tokens": 20, "pad_token_id": PAD}
    got = llama.generate(**padded(), **options, custom_generate=specproof.hf.generate, seed=1)
    assert got.shape == (9, 27)
    assert got[:, :7].tolist() == padded()["input_ids"].repeat_interleave(3, 0).tolist()
    assert len({tuple(row) for row in got[:3, 7:].tolist()}) == 3


def sampled(model, **options):
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": 20, "pad_token_id": PAD} | options
    return model.generate(**padded(), **options, custom_generate=specproof.hf.generate).tolist()


def test_seeds_repeat_texts_and_torch_seeds_do_too(llama):
    assert sampled(llama, seed=5) == sampled(llama, seed=5) != sampled(llama, seed=6)
    torch.manual_seed(7)
    first, second = sampled(llama), sampled(llama)
    torch.manual_seed(7)
    assert first == sampled(llama) != second


def test_greedy_decoding_leaves_torchs_generator_alone(llama):
    before = torch.random.get_rng_state()
    same(llama)
    assert torch.random.get_rng_state().equal(before)


@pytest.mark.parametrize(
    "filters", [{"top_k": 1}, {"top_p": 1e-6, "top_k": 0}, {"min_p": 1.0}, {"temperature": 1e-4}]
)
def test_filters_act_in_sampling(llama, filters):
    """Each alone leaves the likeliest token, so that sampling is greedy."""
    greedy = llama.generate(**padded(), pad_token_id=PAD, max_new_tokens=20, do_sample=False)
    assert sampled(llama, **filters) == greedy.tolist()


SAMPLING = [
    {"temperature": 0.6, "top_k": 0},
    {"temperature": 1.7, "top_k": 5, "top_p": 0.8, "min_p": 0.1},
    {"top_k": 7, "repetition_penalty": 1.8, "min_new_tokens": 3, "renormalize_logits": True},
    {"bad_words_ids": [[9, 3, 6]], "sequence_bias": {(1,): 2.0}, "no_repeat_ngram_size": 2, "top_p": 0.9},
]


@pytest.mark.parametrize("options", SAMPLING, ids=str)
def test_the_law_of_the_next_token_is_that_of_transformers(llama, options):
    """Rows, not samples: each processor and filter acts, and acts once."""
    laws = []

    def compare(model, input_ids, logits_processor, stopping_criteria, generation_config, **inputs):
        prepared = Prepared(input_ids, logits_processor, stopping_criteria, generation_config, inputs)
        logits = torch.randn(len(input_ids), VOCABULARY, generator=torch.Generator().manual_seed(0)) * 2
        expected = logits_processor(input_ids, logits).softmax(-1)
        for row, law, own in zip(prepared.rows(lend(model), 0), expected, logits, strict=True):
            row.read(len(row.unread))
            laws.append((warp_next(own, row.sequence), law))
        return input_ids

    options = {"do_sample": True, "pad_token_id": PAD, "eos_token_id": 5, "max_new_tokens": 5} | options
    llama.generate(**padded(), **options, custom_generate=compare)
    assert len(laws) == 3
    for got, expected in laws:
        assert torch.allclose(got, expected, atol=1e-6)


class Shy(LogitsProcessor):
    """Forbids the token that stands two places back; sees padding, as transformers shows it."""

    def __call__(self, input_ids, scores):
        return scores.scatter(1, input_ids[:, -2:-1], -torch.inf)


def test_own_processors_see_every_path(llama):
    got = same(llama, logits_processor=[Shy()])
    assert got.tolist() != same(llama).tolist()


def test_allowed_tokens_know_their_prompt(llama):
    allowed = {0: [1, 2, 3], 1: [4, 5], 2: [6, 7, 8, 9]}
    got = same(llama, prefix_allowed_tokens_fn=lambda prompt, ids: allowed[prompt])
    for row, output in enumerate(got[:, 7:].tolist()):
        assert set(output) <= set(allowed[row])
    options = {"num_return_sequences": 2, "do_sample": True, "max_new_tokens": 6, "pad_token_id": PAD}
    options["prefix_allowed_tokens_fn"] = lambda prompt, ids: allowed[prompt]
    got = llama.generate(**padded(), **options, custom_generate=specproof.hf.generate)
    for row, output in enumerate(got[:, 7:].tolist()):
        assert set(output) <= set(allowed[row // 2])


class AtWidth(StoppingCriteria):
    """Ends padded rows at one width, padding included, and others at a token."""

    def __call__(self, input_ids, scores, **_):
        full = input_ids[:, 0] != PAD
        return torch.where(full, torch.isin(input_ids[:, -1], torch.tensor([1, 2, 5])), input_ids.shape[1] >= 10)


def test_own_stopping_criteria_end_a_row_at_the_first_token(llama):
    got = same(llama, stopping_criteria=StoppingCriteriaList([AtWidth()]), eos_token_id=11)
    assert (got[1:, 10:] == PAD).all()


@pytest.fixture(scope="module")
def letters():
    """A tokenizer of one letter a token; token 0 ends a text."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<end>": 0} | {letter: i + 1 for i, letter in enumerate("abcdefghijk")}
    inner = Tokenizer(models.BPE(vocabulary, merges=[]))
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


def test_stop_strings_as_a_criterion(llama, letters):
    plain = same(llama, eos_token_id=0)
    text = letters.decode(plain[0, 9:11])
    stop = StoppingCriteriaList([StopStringCriteria(letters, [text])])
    got = same(llama, stopping_criteria=stop, eos_token_id=0)
    assert got[0].tolist() == plain[0, :11].tolist() + [PAD] * (got.shape[1] - 11)


class Collect:
    """A streamer that remembers."""

    def __init__(self):
        self.tokens, self.ended = [], False

    def put(self, value):
        self.tokens += value.flatten().tolist()

    def end(self):
        self.ended = True


def test_a_streamer_gets_prompt_and_every_token(llama):
    streamers = Collect(), Collect()
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": PAD}
    inputs = {"input_ids": torch.tensor([PROMPTS[0]])}
    llama.generate(**inputs, **options, streamer=streamers[0])
    got = llama.generate(**inputs, **options, streamer=streamers[1], custom_generate=specproof.hf.generate)
    assert streamers[0].tokens == streamers[1].tokens == got[0].tolist()
    assert streamers[1].ended


def test_a_dictionary_says_how_it_came_about(llama):
    options = {"return_dict_in_generate": True, "max_new_tokens": 12, "do_sample": False, "pad_token_id": PAD}
    expected = llama.generate(**padded(), **options)
    got = llama.generate(**padded(), **options, custom_generate=specproof.hf.generate)
    assert got.sequences.tolist() == expected.sequences.tolist()
    assert got.lossless is True
    assert got.rule == "coupling"
    assert [statistics.tokens for statistics in got.statistics] == [12, 12, 12]
    assert max(statistics.tokens_per_forward for statistics in got.statistics) > 1


def test_a_lossy_rule_says_so(llama):
    options = {"return_dict_in_generate": True, "max_new_tokens": 6, "pad_token_id": PAD, "do_sample": True}
    options |= {"rule": "threshold", "allow_lossy": True}
    got = llama.generate(**padded(), **options, custom_generate=specproof.hf.generate)
    assert got.lossless is False


def test_a_model_is_probed_once_and_not_kept_alive(monkeypatch):
    probes = []
    probe = backend._probe
    monkeypatch.setattr(backend, "_probe", lambda target: probes.append(1) or probe(target))
    model = tiny_model("llama", VOCABULARY, seed=9)
    for _ in range(3):
        same(model)
    assert len(probes) == 1
    model.float()
    model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, custom_generate=specproof.hf.generate)
    assert len(probes) == 2
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
