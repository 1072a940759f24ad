"""The same files by Ray: actors and the driver are killed, and nothing is lost or there twice."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from specproof.cli.main import main
from specproof.rollout.files import read_trajectories

from .test_run import command, files

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

SHARDS = 24
WORKERS = "1"


@contextmanager
def started(arguments):
    """A driver, which the end of the block kills."""
    run = [sys.executable, "-m", "specproof.cli.main", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    driver = subprocess.Popen(run, stdout=subprocess.DEVNULL, env=environment)
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()


def wait_for(found, driver, seconds=1200):
    """Until something is found, or the driver is done."""
    end = time.monotonic() + seconds
    while not (result := found()) and driver.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    return result


def actors_of(driver):
    """Process numbers of the actors below a driver."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def below(pid):
        while pid in parents:
            if pid == driver.pid:
                return True
            pid = parents[pid]
        return False

    return [int(pid) for pid, _, name in rows if name.startswith("ray::MapWorker") and below(int(pid))]


def test_killed_actors_and_drivers_lose_nothing_and_double_nothing(model_folder, tmp_path):
    prompts, whole, out = tmp_path / "p.jsonl", tmp_path / "whole", tmp_path / "out"
    prompts.write_text("".join(json.dumps(" ".join("abcdefg"[: 1 + n % 7])) + "\n" for n in range(SHARDS)))
    more = ["--seed", "3", "--max-tokens", "20"]
    assert main(command(model_folder, prompts, whole, *more)) == 0
    ray = command(model_folder, prompts, out, *more, "--ray", "--workers", WORKERS)

    def there():
        return len(list(out.glob("part-*")))

    with started(ray) as driver:
        assert wait_for(lambda: there() >= 2, driver), "no shard came"
        actors = actors_of(driver)
        assert actors, "no actor to kill"
        os.kill(actors[0], signal.SIGKILL)
        before = there()
        wait_for(lambda: there() >= before + 3, driver)
    done = files(out)
    assert len(done) > 0
    assert all(whole.joinpath(name).read_bytes() == content for name, content in done.items())

    with started(ray) as driver:
        assert driver.wait(timeout=1200) == 0
    assert files(out) == files(whole)
    numbers = [(one.prompt, one.sample) for one in read_trajectories(out)]
    assert numbers == [(p, s) for p in range(SHARDS) for s in range(2)]


def test_errors_of_actors_are_one_line(model_folder, tmp_path):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"prompt": [999]}) + "\n")
    arguments = command(model_folder, prompts, tmp_path / "out", "--ray")
    ran = subprocess.run([sys.executable, "-m", "specproof.cli.main", *arguments], capture_output=True, text=True)
    assert ran.returncode == 2
    assert (
        ran.stderr.strip().splitlines()[-1].startswith("specproof: prompt 0: token 999 is outside the vocabulary")
    )
