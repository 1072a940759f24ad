"""`specproof serve --ray`: what comes out is what comes out without Ray, streamed or not, and refusals too."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from specproof.cli.main import main
from specproof.engine.engine import Engine
from specproof.types import SamplingParams

from .conftest import serving

FLAGS = ["--dtype", "float64", "--drafter", "ngram", "--threads", "1", "--name", "tiny"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--replicas", "2"], "add --ray"),
        (["--ray", "--replicas", "0"], "--replicas 0"),
        (["--ray", "--port", "0"], "--port 0"),
        (["--ray", "--draft-shape", "sequoia"], "measures anew"),
    ],
)
def test_flags_that_do_not_fit_are_refused(more, message, capsys):
    assert main(["serve", *more]) == 2
    assert message in capsys.readouterr().err


# What a replica does, with no Ray running: it is sent here as bytes, made, and asked.
ALONE = """
import asyncio, json, sys
import httpx
from ray import cloudpickle

async def main():
    kind = cloudpickle.loads(open(sys.argv[1], "rb").read())
    replica = kind.__new__(kind)
    await replica.__init__()  # as Ray Serve does: it may wait
    await replica._run_asgi_lifespan_startup()
    replica.check_health()
    way = httpx.ASGITransport(app=replica.app)
    async with httpx.AsyncClient(transport=way, base_url="http://replica") as http:
        body = {"model": "tiny", "prompt": "a b", "seed": 1, "max_tokens": 8}
        headers = {"Authorization": "Bearer secret"}
        answer = (await http.post("/v1/completions", json=body, headers=headers)).json()
        refused = (await http.post("/v1/completions", json=body)).status_code
    replica.app.state.loop.failure = RuntimeError("planted")
    try:
        replica.check_health()
    except RuntimeError as error:
        print(json.dumps([answer["choices"][0]["text"], refused, str(error)]))

asyncio.run(main())
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside Ray, when it is imported
def test_a_replica_is_the_whole_server_wherever_it_is_made(model_folder, tmp_path):
    pytest.importorskip("ray")
    from ray import cloudpickle

    from specproof.cli.main import build_parser
    from specproof.cli.serve import _builder
    from specproof.server.replicas import replica

    args = build_parser().parse_args(["serve", "--model", model_folder, *FLAGS])
    sent = tmp_path / "replica"
    sent.write_bytes(cloudpickle.dumps(replica(_builder(args, "secret"))))
    run = [sys.executable, "-c", ALONE, str(sent)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    text, refused, health = json.loads(said.splitlines()[-1])
    engine = Engine.from_pretrained(model_folder, drafter="ngram", dtype="float64")
    assert text == engine.generate(["a b"], SamplingParams(seed=1, max_tokens=8))[0].text
    assert refused == 401
    assert health == "the engine has failed: planted"


@pytest.fixture(scope="module")
def by_ray(model_folder):
    """Address of two replicas on the model of `model_folder`."""
    pytest.importorskip("ray")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    command = ["serve", "--model", model_folder, *FLAGS, "--ray", "--replicas", "2", "--port", port]
    environment = {**os.environ, "SPECPROOF_API_KEY": "secret", "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-m", "specproof.cli.main", *command]
    process = subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert "2 replicas at" in process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def alone(model_folder):
    engine = Engine.from_pretrained(model_folder, drafter="ngram", dtype="float64")
    with serving(engine, key="secret") as address:
        yield address


def answers(address):
    """Everything that a caller sees of some completions, but for times and names of answers."""

    def ask(seed):
        made = client.completions.create(
            model="tiny", prompt="a b c", seed=seed, max_tokens=12, temperature=0.9, logprobs=2, n=2
        )
        return [(choice.text, choice.finish_reason, choice.logprobs.tokens) for choice in made.choices]

    with openai.OpenAI(base_url=f"{address}/v1", api_key="secret", max_retries=0, timeout=120) as client:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(ask, range(12)))
        stream = client.completions.create(model="tiny", prompt="d e", seed=1, max_tokens=12, stream=True)
        found.append("".join(choice.text for part in stream for choice in part.choices))
    with httpx.Client(base_url=address, timeout=60) as http:
        key = {"Authorization": "Bearer secret"}
        body = {"model": "tiny", "prompt": "a", "top_p": 3}
        found.append(
            [http.post("/v1/completions", json=body, headers=key).json(), http.get("/v1/models").status_code]
        )
        found.append(http.get("/v1/models", headers=key).json())
    return found


@pytest.mark.slow
def test_replicas_answer_as_one_server_does(by_ray, alone):
    assert answers(by_ray) == answers(alone)


@pytest.mark.slow
def test_a_stream_comes_in_pieces(by_ray):
    with openai.OpenAI(base_url=f"{by_ray}/v1", api_key="secret", max_retries=0, timeout=120) as client:
        parts = list(client.completions.create(model="tiny", prompt="a", seed=1, max_tokens=20, stream=True))
    assert len(parts) > 3
    deadline = time.monotonic() + 60
    with httpx.Client(base_url=by_ray, timeout=30) as http:
        while http.get("/health").json() != {"status": "ok"}:
            assert time.monotonic() < deadline
