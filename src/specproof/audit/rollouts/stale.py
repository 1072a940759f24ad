"""What an older policy does to rollouts, and the bets on it; its rows stand where other audits have a draft's."""

from __future__ import annotations

from functools import partial

import numpy as np

from specproof.audit.white.arms import DraftTilt, Library
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.faults import FAULTS, Fault, lenient, redrawn, unverified

STALE_FAULTS = (
    Fault("the stale checkpoint wrote the tokens", unverified),
    Fault(
        "drafts of the stale checkpoint, a rejected one redrawn from the policy (SPEC-RL as published)", redrawn
    ),
    Fault("SPEC-RL as published, at lenience e^0.5", partial(redrawn, lenience=float(np.exp(0.5)))),
    Fault("drafts of the stale checkpoint, accepted 1.1 times too easily", lenient),
)
STALE_MIXTURE = Mixture.plain((Library("A9 stale checkpoint", STALE_FAULTS), DraftTilt("A9 stale tilt")))
# An unverified draft of a model that is no policy is a fault of its own.
assert {fault.name for fault in STALE_FAULTS}.isdisjoint(fault.name for fault in FAULTS)
