"""`/specproof/audit/rule/NAME`: a small exact audit of a rule, as `specproof audit rule NAME --json` gives it."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import FastAPI, Query

from specproof.audit.compare import compare
from specproof.audit.document import rules_document
from specproof.audit.rules import audit_rule
from specproof.rules import find_rule
from specproof.server.loop import Busy

INSTANCES = 60


def add_audits(app: FastAPI) -> None:
    """The route; it runs in a thread, one audit at a time, and the event loop stays free."""
    running = threading.Lock()

    @app.post("/specproof/audit/rule/{name}")
    def audit(
        name: str,
        instances: Annotated[int, Query(ge=1, le=INSTANCES)] = 20,
        seed: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    ) -> list[dict[str, Any]]:
        rule = find_rule(name)
        if not running.acquire(blocking=False):
            raise Busy("an audit is running, and one is the most")
        try:
            return rules_document([audit_rule(rule, instances, seed)], compare([rule], seed))
        finally:
            running.release()
