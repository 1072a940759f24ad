"""A drafter that reads what the target keeps, as one that needs no history: it has its target read each text."""

from specproof.drafters.none import empty_draft


class Primed:
    """Drafts after its own target has read every text, but for the root.

    Args:
        drafter: built with `target`.
    """

    def __init__(self, drafter):
        self.drafter, self.target = drafter, drafter.target
        self.drawn, self.chains = drafter.drawn, drafter.chains

    def read(self, batch):
        for text in batch:
            if self.target.store.missing(text) > 1:
                root = text.tokens.pop()
                self.target.forward([text], empty_draft(1))
                self.target.keep([text], [()])
                text.tokens.append(root)

    def draft(self, batch, budget, noise):
        self.read(batch)
        return self.drafter.draft(batch, budget, noise)

    def observe(self, batch, steps, output):
        self.read(batch)
        self.drafter.observe(batch, steps, output)

    def free(self, batch):
        self.drafter.free(batch)
        self.target.free(batch)
