"""The shards of a run drawn by Ray: a pool of actors, each with an engine of its own.

Ray Data hands out the shards and makes up for actors that die; a shard hangs on nothing but its number, so one
that is drawn again is the same. What Ray Data cannot do is go on after the driver is gone: its own writer names
files by chance and does not say which rows are in them. So the rows come back here, and the driver writes them.
"""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator, Sequence
from typing import Any

from specproof.engine.cluster import LOCAL, connected
from specproof.errors import SpecproofError
from specproof.rollout.run import Drawer, Job, Shard

# The line of a traceback that has the message of an error of this package.
_OURS = re.compile(r"\bspecproof(?:\.\w+)+: (.+)")


class _Actor:
    """One engine; Ray makes it once and hands it shard after shard."""

    def __init__(self, job: Job, threads: int) -> None:
        import torch
        from transformers.utils import logging as theirs

        theirs.disable_progress_bar()
        torch.set_num_threads(threads)
        self.drawer = Drawer(job)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        drawn = [self.drawer.draw(int(number)) for number in batch["number"]]
        return {"shard": [pickle.dumps(tuple(shard)) for shard in drawn]}


def drawn_by_ray(
    job: Job, numbers: Sequence[int], address: str = LOCAL, workers: int = 1, threads: int = 1
) -> Iterator[Shard]:
    """Shards in the order in which they are done.

    Args:
        job, numbers: what to draw.
        address: of a cluster, "auto" for the one that this machine belongs to, or "local" for one of its own.
        workers: actors, each with the whole model.
        threads: processors of each.

    Raises:
        SpecproofError: Ray is not there, or a prompt, parameter or model does not fit.
    """
    ray = connected(address, workers * threads)
    gpus = min(workers, len(numbers)) if str(job.pace.get("device", "cpu")).startswith("cuda") else 0
    try:
        if address == LOCAL and gpus > (there := ray.cluster_resources().get("GPU", 0)):
            raise SpecproofError(  # which Ray would wait for without end
                f"--workers {workers} with --device {job.pace['device']} needs {gpus} GPUs and this machine has "
                f"{there:g}; give fewer workers, or --device cpu"
            )
        from ray import data

        data.DataContext.get_current().enable_progress_bars = False  # there is one of our own
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        rows = data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers))
        drawn = rows.map_batches(
            _Actor,
            fn_constructor_args=(job, threads),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(workers, len(numbers))),
            num_cpus=threads,
            num_gpus=1 if gpus else 0,
        )
        for row in drawn.iter_rows():
            yield Shard(*pickle.loads(row["shard"]))
    except Exception as error:
        raise _plain(error, ray.exceptions.RayError) from error
    finally:
        ray.shutdown()


def _plain(error: Exception, lost: type[Exception]) -> Exception:
    """What an actor said if it was an error of ours; Ray has it among its own words."""
    if said := _OURS.findall(str(error)):
        return SpecproofError(said[-1])
    if isinstance(error, lost):
        return SpecproofError(f"Ray has failed: {str(error).strip().splitlines()[0]}; run again to go on")
    return error
