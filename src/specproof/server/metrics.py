"""What Prometheus is told: requests, queue, tokens, acceptance, and where the time goes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from specproof.server.loop import Loop


class Metrics(Collector):
    """Reads the engine's own statistics when it is asked; only HTTP answers are counted here."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.answers = Counter(
            "specproof_answers", "HTTP answers by path and status", ["path", "status"], registry=self.registry
        )

    def answered(self, path: str, status: int) -> None:
        """Count an answer."""
        self.answers.labels(path, str(status)).inc()

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """See `prometheus_client.registry.Collector`."""
        stats, scheduler = self.loop.engine.stats, self.loop.engine.scheduler
        drafted = CounterMetricFamily("specproof_drafted_at", "steps that drafted at a depth", labels=["depth"])
        accepted = CounterMetricFamily("specproof_accepted_at", "steps that accepted at a depth", labels=["depth"])
        for depth, count in sorted(dict(stats.drafted_at).items()):
            drafted.add_metric([str(depth)], count)
            accepted.add_metric([str(depth)], stats.accepted_at[depth])
        seconds = CounterMetricFamily("specproof_seconds", "time of the engine's steps", labels=["part"])
        for part in ("draft", "forward", "verify"):
            seconds.add_metric([part], getattr(stats, f"{part}_seconds"))
        return [
            GaugeMetricFamily("specproof_requests", "requests that wait or run", value=self.loop.count),
            GaugeMetricFamily("specproof_running", "requests that run", value=len(scheduler.running)),
            GaugeMetricFamily("specproof_waiting", "requests in the queue", value=len(scheduler.waiting)),
            CounterMetricFamily("specproof_tokens", "committed tokens", value=stats.tokens),
            CounterMetricFamily("specproof_steps", "target forwards by sequence", value=stats.steps),
            CounterMetricFamily("specproof_drafted", "drafted tokens", value=stats.drafted),
            CounterMetricFamily("specproof_accepted", "accepted drafted tokens", value=stats.accepted),
            GaugeMetricFamily(
                "specproof_tokens_per_forward", "tokens per target forward so far", value=stats.tokens_per_forward
            ),
            drafted,
            accepted,
            seconds,
        ]
