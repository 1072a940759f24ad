"""The verifiers of flashspec: `sampling.rejection` and `sampling.typical`."""

from torch import Tensor

from specproof.audit.adaptors import installed
from specproof.audit.adaptors.coins import Coins, coins_in
from specproof.errors import unknown

MODULES = {"rejection_step": "rejection", "rejection_sample": "rejection", "typical_sample": "typical"}


class Flashspec:
    """One of the package's verification functions; seen to work with 0.3.1."""

    name = "flashspec"
    package = "flashspec"

    def __init__(self, function: str = "rejection_step") -> None:
        """`rejection_step` serves one sequence, `rejection_sample` a batch; `typical_sample` is lossy."""
        if function not in MODULES:
            raise unknown("function of flashspec", function, MODULES)
        self.module, self.version = installed(self.package, f"flashspec.sampling.{MODULES[function]}")
        self.function = function

    def verify(self, target: Tensor, drawn: Tensor, tokens: Tensor, coins: Coins) -> list[int]:
        """See `Adaptor.verify`."""
        ids, draft, rows = tokens[None], drawn.log()[None], target.log()[None]
        with coins_in(self.module, coins):
            if self.function == "rejection_step":
                accepted, extra = self.module.rejection_step(ids, draft, rows)[0].tolist()
                return [*tokens[:accepted].tolist(), extra]
            if self.function == "rejection_sample":
                context = tokens.new_zeros(1, 1)
                found = self.module.rejection_sample(context, draft, rows[:, :-1], ids, len(tokens))
            else:
                found = self.module.typical_sample(draft, rows[:, :-1], ids, len(tokens))
        accepted = int(found[1][0])
        if accepted < len(tokens):
            return found[0][0, : accepted + 1].tolist()  # type: ignore[no-any-return]
        # These leave the bonus token to their caller.
        return [*tokens.tolist(), int(coins.multinomial(target[-1]))]
