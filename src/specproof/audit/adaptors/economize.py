"""The verifiers of economize: `decoding.verifiers`, the batched path with one row."""

from typing import Any

from torch import Tensor

from specproof.audit.adaptors import installed
from specproof.audit.adaptors.coins import Coins, coins_in
from specproof.errors import unknown


class Economize:
    """`verify_batch` with the package's own sampler at temperature 1; seen to work with 0.3.2."""

    name = "economize"
    package = "economize"

    def __init__(self, verifier: str = "rejection") -> None:
        """`verifier` is a name in the package's registry; "typical" and "accept_all" are lossy by design."""
        self.module, self.version = installed(self.package, "economize.decoding.verifiers")
        config, _ = installed(self.package, "economize.decoding.config")
        selectors, _ = installed(self.package, "economize.decoding.selectors")
        protocols, _ = installed(self.package, "economize.decoding.protocols")
        self.draft: Any = protocols.Draft
        self.selector = selectors.TopPSampler()
        classes = {
            "rejection": self.module.RejectionVerifier,
            "typical": self.module.TypicalVerifier,
            "accept_all": self.module.AcceptAllVerifier,
        }
        if verifier not in classes:
            raise unknown("verifier of economize", verifier, classes)
        self.verifier = classes[verifier](config.DecodeConfig(verifier=verifier))

    def verify(self, target: Tensor, drawn: Tensor, tokens: Tensor, coins: Coins) -> list[int]:
        """See `Adaptor.verify`."""
        draft = self.draft(tokens=tokens[None], lengths=[len(tokens)], probs=drawn[None])
        with coins_in(self.module, coins):
            accepted, extra = self.verifier.verify_batch(target.log()[None], draft, self.selector, None, [0])
        return [*tokens[: int(accepted[0])].tolist(), int(extra[0])]
