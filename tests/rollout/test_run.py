"""The command: one file a shard, equal however it came about; and folders that are not its own."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from specproof.backends.hf import HFBackend
from specproof.cli.main import main
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.rollout.files import about_parquet, read_trajectories, to_jsonl
from specproof.rollout.folder import write_whole
from specproof.rollout.prompts import read_prompts
from specproof.rollout.worker import RolloutWorker
from specproof.types import Output, SamplingParams

pytest.importorskip("pyarrow")
PROMPTS = ["a b", "c", "d e f", "g g", "b a b a", "f"]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "answer": 1}) + "\n" for text in PROMPTS))
    return path


def command(model, prompts, out, *more):
    fixed = ["rollout", "--model", model, "--dtype", "float64", "--prompts", str(prompts), "--out", str(out)]
    return [*fixed, "--drafter", "ngram", "--samples", "2", "--shard", "1", "--max-tokens", "6", *more]


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def test_files_hold_what_a_worker_draws(model_folder, prompts, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(command(model_folder, prompts, out, "--seed", "3", "--temperature", "0.8")) == 0
    assert "12 trajectories in 6 files" in capsys.readouterr().out
    found = list(read_trajectories(out))
    engine = Engine.from_pretrained(model_folder, drafter="ngram", dtype="float64")
    params = SamplingParams(temperature=0.8, max_tokens=6, seed=3)
    expected = RolloutWorker(engine).rollout(PROMPTS, params, samples=2)
    assert [(one.prompt, one.sample) for one in found] == [(p, s) for p in range(6) for s in range(2)]
    for one, other in zip(found, expected, strict=True):
        assert (one.completion_ids, one.seed, one.params) == (other.completion_ids, other.seed, other.params)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-10)
        assert one.raw_logprobs == pytest.approx(other.raw_logprobs, abs=1e-10)
    jsonl = tmp_path / "all.jsonl"
    jsonl.write_text(to_jsonl(found))
    assert list(read_trajectories(jsonl)) == found


def test_a_run_goes_on_where_it_was(model_folder, prompts, tmp_path):
    """Files that are missing are drawn again, to the bit, others left alone; the seed is the first run's."""
    out = tmp_path / "out"
    assert main(command(model_folder, prompts, out)) == 0
    first = files(out)
    assert len(first) == 6
    for name in ("part-00001.parquet", "part-00004.parquet"):
        (out / name).unlink()
    (out / ".part-part-00001.parquet.123").write_bytes(b"half")
    kept = (out / "part-00000.parquet").stat().st_mtime_ns
    assert main(command(model_folder, prompts, out)) == 0
    assert files(out) == first
    assert (out / "part-00000.parquet").stat().st_mtime_ns == kept
    assert not list(out.glob(".part-*"))


def test_batches_do_not_enter(model_folder, prompts, tmp_path):
    texts = []
    for number, more in enumerate((["--max-batch", "1"], ["--shard", "4"], [])):
        out = tmp_path / str(number)
        assert main(command(model_folder, prompts, out, "--seed", "1", *more)) == 0
        texts.append([(one.seed, one.completion_ids) for one in read_trajectories(out)])
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--temperature", "0.5"], "another params"),
        (["--samples", "3"], "another samples"),
        (["--drafter", "none"], "another drafter"),
        (["--seed", "4"], "another params"),
        (["--n", "2"], "give --samples 2"),
        (["--workers", "2"], "add --ray"),
        (["--shard", "0"], "--shard 0"),
        (["--draft-shape", "sequoia"], "measures anew"),
    ],
)
def test_another_run_is_refused_in_one_line(model_folder, prompts, tmp_path, capsys, more, message):
    out = tmp_path / "out"
    assert main(command(model_folder, prompts, out, "--seed", "3")) == 0
    before = files(out)
    assert main(command(model_folder, prompts, out, "--seed", "3", *more)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("specproof: ")
    assert message in error
    assert files(out) == before


def test_other_prompts_and_other_weights_are_refused(
    model_folder, draft_folder, prompts, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out"
    assert main(command(model_folder, prompts, out)) == 0
    lines = prompts.read_text()
    prompts.write_text(lines.replace("d e f", "d e e"))
    assert main(command(model_folder, prompts, out)) == 2
    assert "another prompts" in capsys.readouterr().err
    prompts.write_text(lines)
    (out / "part-00002.parquet").unlink()
    real = Engine.__init__

    def trained(self, target, *rest, **options):
        real(self, target, *rest, **options)
        target.model.lm_head.weight.data[0, 0] += 0.5

    monkeypatch.setattr(Engine, "__init__", trained)
    assert main(command(model_folder, prompts, out)) == 2
    assert "other weights" in capsys.readouterr().err
    assert not (out / "part-00002.parquet").exists()


def test_a_run_that_drew_nothing_binds_nobody(model_folder, prompts, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(command(model_folder, prompts, out, "--logprobs", "3")) == 2
    assert "leave logprobs=N away" in capsys.readouterr().err
    assert main(command(model_folder, prompts, out)) == 0


def test_folders_of_others_are_refused(model_folder, prompts, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("not yours")
    assert main(command(model_folder, prompts, tmp_path)) == 2
    assert "holds other files" in capsys.readouterr().err
    out = tmp_path / "out"
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(command(model_folder, prompts, out)) == 2
    assert "another process writes" in capsys.readouterr().err


@pytest.mark.parametrize("inside", [True, False])
def test_a_place_that_takes_no_folder_is_named(model_folder, prompts, capsys, inside):
    place = prompts / "out" if inside else Path("/proc/specproof")
    assert main(command(model_folder, prompts, place)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith(f"specproof: cannot write to --out {place}: ")
    assert error.endswith("give another folder")


def test_a_trajectory_that_fails_is_written_and_told(model_folder, prompts, tmp_path, capsys, monkeypatch):
    real = HFBackend.forward

    def broken(self, batch, draft, start=None):
        logits = real(self, batch, draft, start).logits.clone()
        for b, sequence in enumerate(batch):
            if sequence.tokens[:2] == [1, 2] and sequence.params.max_tokens == 6:  # "a b", and no probe
                logits[b] = float("nan")
        return Output(logits)

    monkeypatch.setattr(HFBackend, "forward", broken)
    assert main(command(model_folder, prompts, tmp_path / "out", "--max-batch", "1")) == 1
    found = list(read_trajectories(tmp_path / "out"))
    assert [one.prompt for one in found if one.finish_reason == "error"] == [0, 0]
    assert all((one.error is None) == (one.prompt != 0) for one in found)
    assert "2 trajectories ended with an error" in capsys.readouterr().err


def test_prompts_have_four_forms(tmp_path, word_tokenizer):
    path = tmp_path / "p.jsonl"
    path.write_text('"a b"\n\n{"prompt": "c"}\n{"prompt": [3, 2]}\n[1]\n')
    assert read_prompts(path, word_tokenizer) == [[1, 2], [3], [3, 2], [1]]
    talk = '{"messages": [{"role": "user", "content": "a"}]}'
    word_tokenizer.chat_template = "{% for m in messages %}b {{ m.content }} c{% endfor %}"
    try:
        path.write_text(talk + "\n" + talk.replace("messages", "prompt") + "\n")
        assert read_prompts(path, word_tokenizer) == [[2, 1, 3]] * 2
    finally:
        word_tokenizer.chat_template = None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1"),
        ("{}", "0 of the fields"),
        ('{"prompt": "a", "messages": []}', "2 of the fields"),
        ('{"prompt": ""}', "no prompt"),
        ("3", "no prompt"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "no chat format"),
        ("", "has no prompts"),
    ],
)
def test_lines_that_are_no_prompts_are_named(tmp_path, word_tokenizer, line, message):
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(SpecproofError, match=message):
        read_prompts(path, word_tokenizer)


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_whole(path, b"old")

    def full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


# Loads everything once, then runs the command in children that are killed after so many seconds each.
KILLED = """
import os, signal, sys, time
from specproof.cli.main import main
from specproof.cli.flags import prepare_torch
import specproof.rollout.folder, specproof.rollout.run
command, waits = sys.argv[2:], [float(wait) for wait in sys.argv[1].split(",")]
killed = 0
for wait in waits:
    child = os.fork()
    if child == 0:
        os._exit(main(command))
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    killed += os.waitpid(child, 0)[1] == signal.SIGKILL
print(killed)
"""


def test_kill_9_at_many_moments_loses_nothing_and_doubles_nothing(model_folder, prompts, tmp_path):
    prompts.write_text("".join(json.dumps(" ".join("abcdefg"[: 1 + n % 7])) + "\n" for n in range(24)))
    whole, out = tmp_path / "whole", tmp_path / "out"
    more = ["--seed", "3", "--max-tokens", "12"]
    assert main(command(model_folder, prompts, whole, *more)) == 0
    waits = ",".join(str(0.4 + 0.2 * n) for n in range(7))
    again = command(model_folder, prompts, out, *more)
    ran = subprocess.run([sys.executable, "-c", KILLED, waits, *again], capture_output=True, text=True, check=True)
    assert int(ran.stdout.split()[-1]) >= 2, ran.stdout
    assert main(again) == 0
    assert files(out) == files(whole)
    numbers = [(one.prompt, one.sample) for one in read_trajectories(out)]
    assert numbers == [(p, s) for p in range(24) for s in range(2)]


def test_files_say_what_they_were_made_with(model_folder, prompts, tmp_path):
    assert main(command(model_folder, prompts, tmp_path / "out")) == 0
    about = about_parquet(tmp_path / "out" / "part-00003.parquet")
    assert about["shard"] == "3"
    assert {"specproof", "torch", "transformers", "python", "weights"} <= set(about)
    assert Path(tmp_path / "out" / "run.json").exists()
