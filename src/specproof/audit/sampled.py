"""Audit of a verifier from outside: any callable that commits tokens, ours or another package's.

Three looks at it, on a fixed panel: its output counted against the exact law of the text; its coins
integrated, where that is possible; and edge coins scripted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from specproof.audit.adaptors import load
from specproof.audit.adaptors.coins import SeededCoins
from specproof.audit.edges import edge_failures
from specproof.audit.exact import Instance
from specproof.audit.goodness import Fit, fit
from specproof.audit.integrate import NotIntegrable, integrated_law
from specproof.audit.panel import Verify, commit, completed, edge_panel, panel, proposals
from specproof.audit.report import SampledResult
from specproof.errors import SpecproofError

FALSE_ALARM = 1e-4
# The chi-square law is an approximation in its far tail; half the rate is kept back for it (see `goodness`).
LEVEL = FALSE_ALARM / 2
FEWEST = 1000


def audit_adaptor(name: str, samples: int = 20_000, seed: int = 0) -> SampledResult:
    """Audit the verifier of another package (see `ADAPTORS`) with `samples` calls on each instance.

    Raises:
        SpecproofError: no such adaptor, its package is not installed, or too few samples.
    """
    adaptor = load(name)
    replay = f"specproof audit rule {name} --samples {samples} --seed {seed}"
    return audit_verifier(adaptor.verify, f"{name} {adaptor.version}", samples, seed, replay=replay)


def audit_verifier(
    verify: Verify,
    name: str,
    samples: int = 20_000,
    seed: int = 0,
    *,
    instances: Mapping[str, Instance] | None = None,
    replay: str = "",
) -> SampledResult:
    """Audit any callable with the signature of `Adaptor.verify`, `samples` calls on each instance.

    Instances are those of `panel` unless given: chains of one node or more, every draw "iid" or "point".

    Raises:
        SpecproofError: too few samples, or the callable returned what cannot be a commit.
    """
    if samples < FEWEST:
        raise SpecproofError(f"samples={samples} is too few for the test to see anything: give {FEWEST} or more")
    instances = panel() if instances is None else instances
    level = LEVEL / len(instances)
    with _one_thread():
        fits = {
            at: _sampled(verify, instance, samples, (seed, number), level)
            for number, (at, instance) in enumerate(instances.items())
        }
        exact_tv = _exact_tv(verify, instances.values())
        edges = [edge_failures(verify, at, instance) for at, instance in edge_panel().items()]
    worst = min(fits, key=lambda at: (fits[at].pvalue, -fits[at].tv))
    return SampledResult(
        verifier=name,
        instances=len(instances),
        samples=samples * len(instances),
        pvalue=min(1.0, len(instances) * fits[worst].pvalue),
        false_alarm=FALSE_ALARM,
        level=LEVEL,
        tv=fits[worst].tv,
        noise=fits[worst].noise,
        worst=worst,
        power=max(fit.detectable for fit in fits.values()),
        exact_tv=exact_tv,
        edge_scripts=sum(tried for tried, _ in edges),
        edge_failures=tuple(failure for _, failures in edges for failure in failures),
        replay=replay,
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Rows this small are not worth a second thread: on a busy machine waiting for it takes ten times longer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _sampled(verify: Verify, instance: Instance, samples: int, seed: tuple[int, int], level: float) -> Fit:
    """Draft, verify, complete by the target's own rows; count the texts."""
    for_drafts, for_texts, for_coins = np.random.SeedSequence(seed).spawn(3)
    drafts = proposals(instance)
    chances = np.array([draft.probability for draft in drafts])
    picks = np.random.default_rng(for_drafts).choice(len(drafts), samples, p=chances / chances.sum())
    coins = SeededCoins(int(for_coins.generate_state(1)[0]))
    committed = Counter(commit(verify, drafts[pick], coins) for pick in picks)
    noise = np.random.default_rng(for_texts)
    counts = np.zeros(instance.target.vocabulary**instance.length, dtype=np.int64)
    for tokens, count in sorted(committed.items()):
        counts += noise.multinomial(count, completed(instance, tokens))
    return fit(counts, completed(instance, ()), level)


def _exact_tv(verify: Verify, instances: Iterable[Instance]) -> float | None:
    """Largest total variation of the integrated laws; None if the coins of one cannot be integrated."""
    largest = 0.0
    for instance in instances:
        try:
            law = integrated_law(verify, instance)
        except NotIntegrable:
            return None
        largest = max(largest, float(np.abs(law - completed(instance, ())).sum() / 2))
    return largest
