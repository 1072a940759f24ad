"""What Ray says when something goes wrong, as one line of ours. Nothing here starts a Ray."""

import socket
from types import SimpleNamespace

import pytest

from specproof.engine import cluster
from specproof.engine.cluster import connected
from specproof.errors import NumericsError, SpecproofError
from specproof.rollout import spread
from specproof.rollout.run import Job
from specproof.types import SamplingParams

ray = pytest.importorskip("ray")
from ray.exceptions import ActorDiedError, RayError, RayTaskError  # noqa: E402


def from_an_actor(error):
    """An error as the driver gets it: Ray Data wraps what a function raised, and Ray what the actor did."""
    from ray.data.exceptions import UserCodeException

    try:
        try:
            raise error
        except Exception as inner:
            raise UserCodeException("The above exception occurred in user code.") from inner
    except UserCodeException as outer:
        import traceback

        told = f"\x1b[36mray::MapWorker(MapBatches(_Actor)).submit()\x1b[39m\n{traceback.format_exc()}"
        return RayTaskError("submit", told, outer).as_instanceof_cause()


@pytest.mark.parametrize("kind", [SpecproofError, NumericsError])
def test_an_actors_own_error_is_what_the_driver_says(kind):
    found = spread._plain(
        from_an_actor(kind("prompt 0: token 9 is outside the vocabulary; give others")), RayError
    )
    assert type(found) is SpecproofError
    assert str(found) == "prompt 0: token 9 is outside the vocabulary; give others"


def test_errors_of_ray_are_one_line():
    found = spread._plain(ActorDiedError(), RayError)
    assert str(found).startswith("Ray has failed: ")
    assert str(found).endswith("run again to go on")
    assert "\n" not in str(found)


def test_other_errors_stay_what_they_are():
    error = from_an_actor(ZeroDivisionError("division by zero"))
    assert "Ray has failed" in str(spread._plain(error, RayError))
    own = ZeroDivisionError("of the driver")
    assert spread._plain(own, RayError) is own


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", ":80", "127.0.0.1:port", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(SpecproofError, match=r"no Ray address: .*give HOST:PORT"):
        connected(address, 1)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_refused_at_once(scheme, monkeypatch):
    """Ray itself would try for minutes."""
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(SpecproofError, match=r"no Ray at .*start one, or give 'local'") as caught:
            connected(address, 1)
    assert "\n" not in str(caught.value)


def test_an_address_where_somebody_listens_is_given_to_ray(monkeypatch):
    asked = []
    monkeypatch.setattr(ray, "init", lambda **options: asked.append(options["address"]))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert connected(address, 1) is ray
    assert asked == [address]


def test_more_gpus_than_there_are_are_not_waited_for(monkeypatch):
    ended = []
    fake = SimpleNamespace(
        cluster_resources=lambda: {"CPU": 2.0, "GPU": 1.0},
        exceptions=ray.exceptions,
        shutdown=lambda: ended.append(True),
    )
    monkeypatch.setattr(spread, "connected", lambda address, processors: fake)
    job = Job([[1], [2]], SamplingParams(seed=1), 1, 1, {}, {"device": "cuda"})
    with pytest.raises(SpecproofError, match="--workers 2 with --device cuda needs 2 GPUs and this machine has 1"):
        next(spread.drawn_by_ray(job, [0, 1], cluster.LOCAL, workers=2))
    assert ended
