"""`specproof train` on a tiny model: texts, updates, resuming after a kill, and the head that comes out."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from specproof import SamplingParams
from specproof.cli.main import main
from specproof.engine.loading import load_engine
from specproof.errors import SpecproofError
from specproof.train.data import SHARD, Data, data_hash, split
from specproof.train.prompts import built_in_prompts
from specproof.train.run import Job, train
from specproof.train.settings import TrainSettings
from specproof.train.start import frequent_tokens

SMALL = TrainSettings(
    samples=20, max_tokens=12, draft_vocabulary=6, depth=2, steps=12, batch=3, save_every=5, evaluate_every=6,
    learning_rate=3e-3, seed=4, held_out=0.2,
)  # fmt: skip
PROMPTS = ("a b c\n\nc d\ne f g a\nb\n", 4)


@pytest.fixture
def job(tmp_path, model_folder):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text(PROMPTS[0])
    return Job(model_folder, tmp_path / "out", prompts, "float64")


def weights(out):
    return load_file(out / "model.safetensors")


def test_built_in_prompts_are_many_and_different():
    prompts = built_in_prompts()
    assert len(prompts) == len(set(prompts)) == 574
    assert all(prompts)


def test_a_head_is_trained_saved_and_drafts(job, model_folder):
    stages = []
    result = train(job, SMALL, lambda stage, done, total, said: stages.append((stage, done, total)))
    assert stages[0] == ("texts", 20, 20)
    assert [s for s in stages if s[0] == "held out"] == [("held out", 6, 12), ("held out", 12, 12)]
    assert 0 < result.by_depth[1] < 1
    assert 1 < result.tokens_per_forward < 3
    config = json.loads((job.out / "config.json").read_text())
    made = config["specproof"]
    assert made["settings"] == SMALL.as_dict()
    agreed = made["evaluation"].pop("acceptance_by_depth_at_temperature_0")
    assert made["evaluation"] == result.as_dict()
    assert len(agreed) == SMALL.depth
    assert all(0 <= share <= 1 for share in agreed)
    assert made["data"]["hash"] == data_hash(
        Data(job.out / "data", ["a b c", "c d", "e f g a", "b"], SMALL, model_folder).samples()
    )
    assert (made["data"]["train"], made["data"]["held_out"], made["data"]["prompts"]) == (15, 5, "prompts.txt")
    assert {"specproof", "torch", "transformers", "python"} == set(made["versions"])
    assert made["command"].startswith("specproof")
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 2
    assert "| 2 |" in (job.out / "README.md").read_text()
    engine = load_engine(model_folder, drafter="eagle3", draft_model=str(job.out), dtype="float64", adaptive=False)
    generated = engine.generate(["a b"], SamplingParams(max_tokens=25, ignore_eos=True, seed=1))[0]
    assert not generated.warnings
    assert generated.stats.drafted > 10


def test_the_loss_falls_and_the_embedding_stays(job):
    """Sixty updates on sixteen texts, one after the other, none of which draws anything."""
    settings = replace(SMALL, steps=60, loss="kl")
    train(job, settings)
    losses = [e["loss"] for e in map(json.loads, (job.out / "log.jsonl").read_text().splitlines()) if "loss" in e]
    assert len(losses) == 60
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    assert "embed_tokens.weight" not in weights(job.out)


def test_medusa_heads_are_trained_and_draft(job, model_folder):
    """From the target's own output rows, so the first head begins as good as a guess of the token after next."""
    settings = replace(SMALL, method="medusa", steps=60, loss="kl")
    result = train(job, settings)
    losses = [e["loss"] for e in map(json.loads, (job.out / "log.jsonl").read_text().splitlines()) if "loss" in e]
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    assert len(result.by_depth) == 2
    config = json.loads((job.out / "config.json").read_text())
    assert (config["speculators_model_type"], config["num_heads"]) == ("medusa", 2)
    assert config["specproof"]["evaluation"].items() >= result.as_dict().items()
    assert "# Medusa heads for" in (job.out / "README.md").read_text()
    engine = load_engine(model_folder, drafter="medusa", draft_model=str(job.out), dtype="float64", adaptive=False)
    generated = engine.generate(["a b"], SamplingParams(max_tokens=25, ignore_eos=True, seed=1))[0]
    assert not generated.warnings
    assert generated.stats.drafted > 10
    with pytest.raises(SpecproofError, match="is of a run with method 'medusa', not 'eagle3'"):
        train(job, replace(settings, method="eagle3"))


def test_a_state_from_before_a_setting_was_there_had_its_default(job):
    train(job, replace(SMALL, steps=2))
    (state,) = (job.out / "state").glob("step-*/state.json")
    values = json.loads(state.read_text())
    del values["about"]["method"]
    state.write_text(json.dumps(values))
    train(job, replace(SMALL, steps=2))
    with pytest.raises(SpecproofError, match="is of a run with method 'eagle3', not 'medusa'"):
        train(job, replace(SMALL, steps=2, method="medusa"))


def test_a_run_that_is_killed_goes_on_to_the_same_head(job, tmp_path, model_folder):
    """SIGKILL in the texts and in the updates; the head is the uninterrupted one's, bit for bit."""
    settings = replace(SMALL, steps=40)
    train(replace(job, out=tmp_path / "whole"), settings)
    flags = [
        piece
        for name, value in settings.as_dict().items()
        for piece in ("--" + name.replace("_", "-"), str(value))
    ]
    command = [sys.executable, "-m", "specproof.cli.main", "train", str(job.out), "--model", model_folder]
    command += ["--dtype", "float64", "--threads", "1", "--prompts", str(job.prompts), *flags]
    for sign in ("data/samples-*.jsonl", "state/step-*"):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not list(job.out.glob(sign)):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stderr.close()
        assert not (job.out / "config.json").exists()
    assert main(command[3:]) == 0
    expected, found = weights(tmp_path / "whole"), weights(job.out)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
    steps = [e["step"] for e in map(json.loads, (job.out / "log.jsonl").read_text().splitlines()) if "loss" in e]
    assert steps == list(range(1, 41))
    assert (job.out / "data" / "samples-00000.jsonl").read_text() == (
        tmp_path / "whole" / "data" / "samples-00000.jsonl"
    ).read_text()


def test_more_samples_are_added_to_those_that_are_there(job, model_folder):
    class Counting:
        def __init__(self, engine):
            self.engine, self.asked = engine, 0
            self.tokenizer = engine.tokenizer

        def generate(self, prompts, params):
            self.asked += len(prompts)
            return self.engine.generate(prompts, params)

    prompts = built_in_prompts()
    engine = Counting(load_engine(model_folder, dtype="float64"))
    folder = job.out / "data"
    Data(folder, ["a b", "c"], replace(SMALL, samples=SHARD + 2), "some").generate(engine)
    assert engine.asked == SHARD + 2
    more = Data(folder, ["a b", "c"], replace(SMALL, samples=2 * SHARD), "some")
    more.generate(engine)
    assert engine.asked == SHARD + 2 + SHARD  # the part of a shard is written anew
    assert len(more.samples()) == 2 * SHARD
    assert len({sample.seed for sample in more.samples()}) == 2 * SHARD
    with pytest.raises(SpecproofError, match=r"holds samples made with prompts .*: give another folder"):
        Data(folder, prompts, SMALL, "some")
    with pytest.raises(SpecproofError, match=r"made with temperature 1\.0, and this run asks for 0.5"):
        Data(folder, ["a b", "c"], replace(SMALL, temperature=0.5), "some")


def test_the_number_of_updates_may_change_on_the_way(job):
    """The learning rate ends where the new plan ends, and the head says what was planned when."""
    train(job, replace(SMALL, steps=12))
    train(job, replace(SMALL, steps=20))
    state = json.loads((job.out / "state" / "step-0000020" / "state.json").read_text())
    assert state["groups"][0]["lr"] < 1e-3 * SMALL.learning_rate
    config = json.loads((job.out / "config.json").read_text())
    assert config["specproof"]["plans"] == [[0, 12], [12, 20]]
    assert (
        "- 20 updates (at first planned as 12; from update 12 on planned as 20)"
        in (job.out / "README.md").read_text()
    )
    with pytest.raises(SpecproofError, match="has seen 20 updates and --steps is 19: give 20 or more"):
        train(job, replace(SMALL, steps=19))


def test_a_state_of_another_run_is_not_gone_on_with(job):
    train(job, replace(SMALL, steps=2, save_every=1))
    with pytest.raises(SpecproofError, match=r"step-0000002 is of a run with loss 'lk_lambda', not 'tv'"):
        train(job, replace(SMALL, steps=2, loss="tv"))


def test_frequent_tokens_and_the_split(job, model_folder):
    data = Data(job.out / "data", ["a b"], SMALL, "some")
    data.generate(load_engine(model_folder, dtype="float64"))
    samples = data.samples()
    tokens = frequent_tokens(samples, 3, 8)
    counts = [sum(s.tokens[s.prompt_tokens :].count(t) for s in samples) for t in range(8)]
    assert sorted(counts, reverse=True)[:3] == sorted((counts[t] for t in tokens), reverse=True)
    assert tokens == sorted(tokens)
    learned, held_out = split(samples, 0.2, prompts=4)
    assert held_out == samples[3::4]
    assert learned == [sample for number, sample in enumerate(samples) if number % 4 < 3]
    assert split(samples, 0.2, prompts=1) == (samples[:16], samples[16:])
    assert split(samples, 0.1, prompts=300) == (samples[:18], samples[18:])
    assert len(split(samples[:2], 0.9, prompts=2)[0]) == 1
    with pytest.raises(SpecproofError, match="--draft-vocabulary 9 is not allowed: the model has 8 tokens"):
        frequent_tokens(samples, 9, 8)


def test_other_dtypes_and_architectures_are_trained_in_float32(tmp_path, word_tokenizer, capsys):
    from specproof.testing.tiny import tiny_model

    model = tiny_model("gpt2", 8, 0, context=64)
    model.generation_config.eos_token_id = 0
    model.save_pretrained(tmp_path / "gpt2")
    word_tokenizer.save_pretrained(tmp_path / "gpt2")
    argv = ["train", tmp_path / "out", "--model", tmp_path / "gpt2", "--dtype", "bfloat16", "--steps", 3]
    argv += ["--samples", 4, "--max-tokens", 8, "--draft-vocabulary", 5, "--depth", 2, "--batch", 2]
    assert main([str(a) for a in argv]) == 0
    out = capsys.readouterr().out
    assert "expected tokens per forward" in out
    engine = load_engine(
        str(tmp_path / "gpt2"), drafter="eagle3", draft_model=str(tmp_path / "out"), dtype="bfloat16"
    )
    result = engine.generate(["a b"], SamplingParams(max_tokens=12, ignore_eos=True, seed=1))[0]
    assert not result.warnings
    assert result.stats.drafted > 5


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--loss", "mse"], "unknown loss 'mse'; choose one of: kl, lk_alpha, lk_lambda, tv"),
        (["--precision", "int8"], "unknown precision 'int8'; choose one of: bfloat16, float32"),
        (["--memory", "-1"], "--memory -1.0 is not allowed: give a number of GiB >= 0"),
        (["--method", "dflash"], "unknown method 'dflash'; choose one of: eagle3, medusa"),
        (["--samples", "1"], "--samples 1 is not allowed: give at least 2"),
        (["--temperature", "0"], "--temperature 0.0 is not allowed: give a finite number > 0"),
        (["--max-tokens", "4"], "--max-tokens 4 is not allowed: give more than depth, here 4"),
        (["--steps", "0"], "--steps 0 is not allowed"),
        (["--prompts", "/no/where"], "cannot read --prompts /no/where"),
        (["--model", "./nowhere"], "no model folder at './nowhere'"),
        (["--draft-vocabulary", "9", "--samples", "2", "--max-tokens", "5"], "the model has 8 tokens"),
    ],
)
def test_wrong_input_is_one_line(argv, message, capsys, tmp_path, model_folder):
    argv = ["train", str(tmp_path / "out"), *([] if "--model" in argv else ["--model", model_folder]), *argv]
    assert main(argv) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
