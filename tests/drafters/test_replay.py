"""Old texts drafted again: the law over all old texts and all decisions, what is stored, who gets which text."""

from dataclasses import replace

import pytest
import torch

from specproof.audit.engine_exact import engine_law, model_law
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import choose_drafter
from specproof.drafters.past import Kept, Past, kept, law_of, load_pasts, save_pasts
from specproof.drafters.replay import ReplayDrafter
from specproof.engine.baseline import decode
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.sampling import warp_next
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import tiny_model
from specproof.types import GUMBEL, Output, SamplingParams, Step, TokenSequence

VOCABULARY, END, PROMPT = 3, 0, [1, 2]
PARAMS = SamplingParams(temperature=0.8, max_tokens=3)
OLD, NEW = (TableModel.random(VOCABULARY, 2, torch.Generator().manual_seed(seed)) for seed in (0, 1))


def logits(table):
    return lambda tokens: table.row(tokens).log()


def start(params=PARAMS):
    return TokenSequence(list(PROMPT), len(PROMPT), params, 0, frozenset([END]))


def remembered(text, most, dtype):
    """The past with the rows that the old policy drew it from."""
    rows = []
    for place, token in enumerate(text):
        row = warp_next(OLD.row(PROMPT + list(text[:place])).log(), start(replace(PARAMS, top_k=0)))
        rows.append(kept(row, token, most, dtype))
    return Past(tuple(PROMPT), text, 0, tuple(rows))


def law_over_old_texts(rule, budget, most, dtype, *, rows=True, change=lambda past: past, kind=ReplayDrafter):
    """Sum over all old texts of their probability times the law of the engine that drafts them again."""
    found = {}
    for text, chance in model_law(logits(OLD), start(), 99).items():
        past = change(remembered(text, most, dtype))
        drafter = kind([past], VOCABULARY, rows=rows, shared=True, dtype=torch.float64)
        noise = EnumeratingNoise()
        engine = Engine(
            TableBackend(NEW),
            drafter,
            rule,
            eos=(END,),
            max_batch=64,
            budget=budget,
            noise=noise,
            allow_lossy=True,
        )
        for output, probability in engine_law(engine, PROMPT, PARAMS)[0].items():
            found[output] = found.get(output, 0.0) + chance * probability
    return found


def apart(found):
    expected = model_law(logits(NEW), start(), 99)
    return sum(abs(found.get(text, 0) - expected.get(text, 0)) for text in {*found, *expected}) / 2


STORED = {"all, as they are": (0, torch.float64), "two, in half precision": (2, torch.float16)}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("budget", [1, 3])
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_law_over_all_old_texts_is_the_new_policys(rule, budget, stored):
    assert apart(law_over_old_texts(rule, budget, *STORED[stored])) < 1e-12


@pytest.mark.parametrize("rule", ["walk", "coupling"])
def test_so_it_is_of_points(rule):
    assert apart(law_over_old_texts(rule, 2, 0, torch.float64, rows=False)) < 1e-12


def test_the_published_rule_is_off():
    assert apart(law_over_old_texts("spec_rl", 3, 0, torch.float64)) > 0.01


def test_rounded_rows_without_thinning_are_off():
    """The planted fault: what was drawn from the row itself is judged by what is stored of it."""

    def change(past):
        return replace(past, rows=tuple(row._replace(chance=1.0) for row in past.rows))

    assert apart(law_over_old_texts("rejection", 3, 2, torch.float16, change=change)) > 1e-3


def test_a_kept_token_is_a_draw_from_what_is_stored():
    """Summed over all tokens: given that it may be drafted, each has the stored probability."""
    row = torch.tensor([0.4, 0.3, 0.2, 0.0999, 0.0001, 0.0], dtype=torch.float64)
    for most, dtype in ((0, torch.float16), (3, torch.float16), (3, torch.bfloat16), (0, torch.float32)):
        found = [kept(row, token, most, dtype) for token in range(6)]
        drafted = torch.tensor([float(row[t]) * each.chance for t, each in enumerate(found)]).double()
        law = law_of(found[0], 6, torch.float64)
        assert torch.allclose(drafted / drafted.sum(), law, atol=1e-6)
        assert float(drafted.sum()) > (0.98 if most == 0 else 0.88), "little is lost"
        assert law.dtype == torch.float64
        assert float(law.sum()) == pytest.approx(1, abs=1e-15)


def test_coupling_with_the_old_seeds_gives_the_policys_own_text():
    """The text of a seed is the target's alone, whatever was drafted; and most of an old text is kept."""
    models = [tiny_model("llama", 8, seed=0), tiny_model("llama", 8, seed=0)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.mul_(1 + 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    params = SamplingParams(max_tokens=12)
    old, new = (Engine(HFBackend(model), "none", "coupling") for model in models)
    asked = [replace(params, seed=seed) for seed in range(8)]
    pasts = [Past((1, 2), result.tokens, result.seed) for result in old.generate([[1, 2]] * 8, asked)]
    replaying = Engine(HFBackend(models[1]), ReplayDrafter(pasts[::-1], 8, rows=False), "coupling")
    found = replaying.generate([[1, 2]] * 8, asked)
    assert [each.tokens for each in found] == [each.tokens for each in new.generate([[1, 2]] * 8, asked)]
    for seed, each in enumerate(found):
        sequence = TokenSequence([1, 2], 2, asked[seed], seed)
        with torch.inference_mode():
            plain = decode(
                lambda tokens: models[1](input_ids=torch.tensor([tokens])).logits[0, -1],
                sequence,
                CounterNoise(),
                use=GUMBEL,
            )
        assert list(each.tokens) == plain
    assert replaying.stats.accepted > 0.7 * replaying.stats.drafted > 0


class Drawing:
    """Replay of a text that is drawn when it is asked for: as check_drafter can enumerate it."""

    drawn, chains = "iid", True

    def __init__(self, table, most):
        self.table, self.most = table, most
        self.inner = None

    def draft(self, batch, budget, noise):
        from specproof.types import PROPOSE, Key

        pasts = []
        for sequence in batch:
            text, rows, place = list(sequence.output), [], len(sequence.output)
            for node in range(3):
                row = self.table.row(sequence.tokens[: sequence.prompt_length] + text)
                row = warp_next(
                    row.log(), replace(sequence, tokens=sequence.tokens[: sequence.prompt_length] + text)
                )
                key = Key(sequence.seed, len(sequence.tokens) - 1, PROPOSE, 100 + node)
                text.append(int(noise.choose(row[None], [key])))
                rows.append(kept(row, text[-1], self.most, torch.float64))
            prompt = tuple(sequence.tokens[: sequence.prompt_length])
            pasts.append(Past(prompt, tuple(text), sequence.seed, (rows[0],) * place + tuple(rows)))
        return ReplayDrafter(pasts, self.table.vocabulary, dtype=torch.float64).draft(batch, budget, noise)

    def observe(self, batch, steps, output):
        pass

    def free(self, batch):
        pass


def test_conformance():
    table = TableModel.random(4, 1, torch.Generator().manual_seed(3))
    check_drafter(lambda: Drawing(table, 0), TableBackend(table))
    generator = torch.Generator().manual_seed(1)
    prompts = [tuple(torch.randint(4, (length,), generator=generator).tolist()) for length in (4, 1, 7)]
    pasts = [Past(prompt, (1, 2, 3, 0, 1, 1), 5) for prompt in prompts]
    check_drafter(lambda: ReplayDrafter(pasts, 4, rows=False), TableBackend(table))


def drafted(drafter, prompt=(1,), seed=0, output=(), most=9):
    sequence = TokenSequence([*prompt, *output], len(prompt), PARAMS, seed)
    return drafter.draft([sequence], [most], CounterNoise()).tokens[0].tolist(), sequence


def test_who_gets_which_text():
    pasts = [Past((1,), (2, 2, 2), 7), Past((1,), (1, 1), 8), Past((2,), (1,), 9)]
    drafter = ReplayDrafter(pasts, 3, rows=False)
    assert drafted(drafter, seed=8)[0] == [1, 1], "the one with its seed"
    assert drafted(drafter, seed=1)[0] == [2, 2, 2], "else the next"
    assert drafted(drafter, seed=2)[0] == [], "no text twice"
    assert drafted(drafter, seed=1, output=(2,))[0] == [2, 2]
    assert drafted(drafter, seed=1, output=(1,))[0] == []
    assert drafted(drafter, seed=1, output=(2,), most=1)[0] == [2]
    assert drafted(drafter, prompt=(0,))[0] == []
    _, sequence = drafted(drafter, seed=1)
    drafter.observe([sequence], [Step((0,), 2)], Output(torch.zeros(0)))
    assert drafted(drafter, seed=1, output=(2, 2))[0] == [], (
        "something was refused, though the text went on the same"
    )
    shared = ReplayDrafter(pasts, 3, rows=False, shared=True)
    assert drafted(shared, seed=1)[0] == drafted(shared, seed=2)[0] == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_keep_everything(tmp_path, dtype):
    rows = torch.rand(3, 5, generator=torch.Generator().manual_seed(0)).double()
    rows /= rows.sum(-1, keepdim=True)
    own = tuple(kept(row, token, 3, dtype) for row, token in zip(rows, (4, 1, 0), strict=True))
    pasts = [Past((1, 2), (4, 1, 0), 2**64 - 1, own), Past((3,), (), 5)]
    save_pasts(pasts, tmp_path / "a.safetensors")
    found = load_pasts(tmp_path / "a.safetensors")
    for one, other in zip(pasts, found, strict=True):
        assert (one.prompt, one.tokens, one.seed) == (other.prompt, other.tokens, other.seed)
        for row, again in zip(one.rows, other.rows, strict=True):
            assert torch.equal(row.ids, again.ids)
            assert torch.equal(row.values, again.values)
            assert row.chance == again.chance
    loaded = choose_drafter(
        "replay", TableBackend(TableModel.constant([0.2] * 5)), past=str(tmp_path / "a.safetensors")
    )
    assert loaded.drawn == "iid"


def test_what_is_refused(tmp_path):
    target = TableBackend(NEW)
    with pytest.raises(SpecproofError, match="--draft-model FILE"):
        choose_drafter("replay", target)
    with pytest.raises(SpecproofError, match="no rows"):
        ReplayDrafter([Past((1,), (1,), 0)], 3)
    with pytest.raises(SpecproofError, match="outside the vocabulary"):
        ReplayDrafter([Past((1,), (3,), 0)], 3, rows=False)
    row = Kept(torch.zeros(1).int(), torch.ones(1), 1.0)
    with pytest.raises(SpecproofError, match="1 rows for 2 tokens"):
        Past((1,), (1, 2), 0, (row,))
    with pytest.raises(SpecproofError, match="two files"):
        save_pasts([Past((1,), (1,), 0), Past((1,), (1,), 0, (row,))], tmp_path / "a")
    (tmp_path / "b").write_text("no tensors")
    for name in ("b", "c"):
        with pytest.raises(SpecproofError, match="cannot read"):
            load_pasts(tmp_path / name)
