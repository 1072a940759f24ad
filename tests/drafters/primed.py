"""A drafter that reads the target's features, as one that needs no history: it has its target read each text."""

from specproof.drafters.none import empty_draft


class Primed:
    """Drafts after its own target has read every text, root included.

    Args:
        drafter: built with `target`.
    """

    def __init__(self, drafter):
        self.drafter, self.target = drafter, drafter.target
        self.drawn, self.chains = drafter.drawn, drafter.chains

    def read(self, batch):
        if unread := [text for text in batch if len(self.target.features(text)) < len(text.tokens)]:
            self.target.forward(unread, empty_draft(len(unread)))
            self.target.keep(unread, [()] * len(unread))

    def draft(self, batch, budget, noise):
        self.read(batch)
        return self.drafter.draft(batch, budget, noise)

    def observe(self, batch, steps, output):
        self.read(batch)
        self.drafter.observe(batch, steps, output)

    def free(self, batch):
        self.drafter.free(batch)
        self.target.free(batch)
