"""What the soak is made of: random jobs, drafters that misbehave, a server loop, and naive references."""

import random
from dataclasses import dataclass

import torch

from specproof.drafters.ngram import NgramDrafter
from specproof.engine.baseline import decode
from specproof.errors import NumericsError
from specproof.noise import CounterNoise, completion_seed
from specproof.sampling import ends_for, processors_for, warp_next
from specproof.testing.tiny import recomputed_logits
from specproof.tree import Tree
from specproof.types import EXTRA, GUMBEL, Draft, SamplingParams, TokenSequence

VOCABULARY, CONTEXT, EOS = 11, 64, 10
PIECES = ["a", "b", "c", "ab", "ca", "d", "e", "bc", "f", "g", ""]
STOPS = ["abc", "bca", "dd", "cab", "eb", "g"]


class Letters:
    """A tokenizer of which only the way back is used; some tokens are two letters, the last one none."""

    def decode(self, tokens, **_):
        return "".join(PIECES[token] for token in tokens)


@dataclass
class Job:
    """One call of `Engine.requests`, when it comes, and when which of its completions is cancelled.

    cancels: steps after the arrival for each completion; None lets it be.
    """

    prompt: list
    params: SamplingParams
    arrival: int
    cancels: list


def random_params(rng, greedy):
    """Everything a request may ask for, mostly at its default so that each counts."""
    most = rng.choice([rng.randint(0, 3), rng.randint(2, 40), 40, 40])
    some = lambda values, otherwise: rng.choice(values) if rng.random() < 0.3 else otherwise  # noqa: E731
    word = lambda: tuple(rng.randrange(VOCABULARY) for _ in range(rng.choice([1, 2, 2, 3])))  # noqa: E731
    return SamplingParams(
        temperature=0 if rng.random() < greedy else rng.uniform(0.3, 1.5),
        top_k=some([1, 3, 5, 20], 0),
        top_p=some([0.5, 0.8, 0.95], 1.0),
        min_p=some([0.02, 0.2], 0.0),
        repetition_penalty=some([1.4, 0.8], 1.0),
        presence_penalty=some([0.8, -0.5], 0.0),
        frequency_penalty=some([0.5, -0.2], 0.0),
        logit_bias=some([{3: 2.0}, {0: -3.0, EOS: 1.5}], {}),
        bad_words=tuple(word() for _ in range(some([1, 3], 0))),
        min_tokens=some([min(most, 3), min(most, 9)], 0),
        max_tokens=most,
        stop=tuple(rng.sample(STOPS, some([1, 3], 0))),
        stop_token_ids=tuple(rng.sample(range(VOCABULARY), some([1, 2], 0))),
        ignore_eos=rng.random() < 0.7,
        seed=rng.getrandbits(64),
        n=some([2, 3], 1),
        logprobs=some([0, 3], None),
    )


def random_jobs(rng, count, greedy, cancelled=0.2):
    jobs, step = [], 0
    for _ in range(count):
        params = random_params(rng, greedy)
        longest = rng.choice([4, 8, 20, CONTEXT])
        prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, longest))]
        cancels = [rng.randint(0, 12) if rng.random() < cancelled else None for _ in range(params.n)]
        jobs.append(Job(prompt, params, step, cancels))
        step += rng.choice([0, 0, 1, 4])
    return jobs


class Moody:
    """Proposes garbage, nothing, what is known to come, or breaks the contract, as its dice have it.

    known: from seeds to texts. Dice are keyed by seed and round: they know nothing of what verification draws.
    """

    drawn = "point"

    def __init__(self, known, chains, faults=0.03):
        self.known, self.chains, self.faults = known, chains, faults
        self.rounds = {}

    def draft(self, batch, budget, noise):
        drafts = [self.one(sequence, most) for sequence, most in zip(batch, budget, strict=True)]
        width = max(len(tokens) for _, tokens in drafts)
        padded = [list(tokens) + [-1] * (width - len(tokens)) for _, tokens in drafts]
        tokens = torch.tensor(padded, dtype=torch.long).reshape(len(batch), width)
        return Draft(tuple(tree for tree, _ in drafts), tokens, None, "point")

    def one(self, sequence, most):
        turn = self.rounds[sequence.seed] = self.rounds.get(sequence.seed, 0) + 1
        rng = random.Random(hash((sequence.seed, turn)))
        size = rng.randint(0, most)
        if rng.random() < self.faults:
            return self.fault(rng, most)
        if rng.random() < 0.4 and sequence.seed in self.known:
            tokens = self.known[sequence.seed][len(sequence.output) :][:size]
            return Tree.chain(len(tokens)), tokens
        tree = Tree.chain(size) if self.chains else Tree(tuple(rng.randint(-1, i - 1) for i in range(size)))
        tokens = []
        for node in range(size):
            path = [tokens[n] for n in tree.path(tree.parents[node])]
            order = tree.children(tree.parents[node]).index(node)
            tokens.append((favourite(sequence.tokens + path) + order) % VOCABULARY)
        return tree, tokens

    def fault(self, rng, most):
        kind = rng.choice(["outside", "negative", "greedy", "raise"])
        if kind == "raise" or most == 0:
            raise ValueError("in a bad mood")
        if kind == "greedy":
            return Tree.chain(most + 1), [0] * (most + 1)
        return Tree.chain(1), [VOCABULARY if kind == "outside" else -1]

    def observe(self, batch, steps, output):
        if any(hash((sequence.seed, len(sequence.tokens))) % 100 == 0 for sequence in batch):
            raise RuntimeError("does not want to know")

    def free(self, batch):
        pass


def favourite(tokens):
    """The token that `Moody` proposes first after a text."""
    return (3 * tokens[-1] + len(tokens)) % VOCABULARY


def looked_up(tokens):
    """The token that prompt lookup proposes first after a text, if any."""
    found = NgramDrafter(shortest=1)._lookup(tokens, 1)
    return found[0] if found else 0


def serve(engine, jobs):
    """Run all jobs through add, step and cancel; returns (job, number, result, joined deltas) each."""
    made = [(job, engine.requests(job.prompt, job.params)) for job in jobs]
    each = [(job, number, request) for job, several in made for number, request in enumerate(several)]
    deltas = {id(request): "" for _, _, request in each}
    waiting, step = list(each), 0
    while not all(request.done for _, _, request in each):
        for _, _, request in (entry for entry in waiting if entry[0].arrival <= step):
            engine.add(request)
        waiting = [entry for entry in waiting if entry[0].arrival > step]
        for job, number, request in each:
            if job.cancels[number] is not None and step == job.arrival + job.cancels[number]:
                engine.cancel(request)
        for request in engine.step():
            deltas[id(request)] += engine.result(request).delta
        step += 1
        assert step < 5000, "requests that never end"
    results = [(job, number, request, engine.result(request)) for job, number, request in each]
    return [(job, number, result, deltas[id(request)] + result.delta) for job, number, request, result in results]


def fresh(job, number):
    params = job.params
    seed = completion_seed(params.seed, number)
    made = processors_for(params, VOCABULARY)
    return TokenSequence(list(job.prompt), len(job.prompt), params, seed, ends_for(params, [EOS]), made)


def stop_found(params, output):
    """Where a stop string begins that the last token completes, or None."""
    before, text = Letters().decode(output[:-1]), Letters().decode(output)
    if len(output) < params.min_tokens:
        return None
    places = [text.find(stop, max(0, len(before) - len(stop) + 1)) for stop in params.stop]
    return min((place for place in places if place >= 0), default=None)


def reference(model, job, number, coupled):
    """Tokens and reason of naive decoding, token by token without a cache."""
    sequence = fresh(job, number)
    stopped = lambda s: stop_found(s.params, s.output) is not None  # noqa: E731
    use = GUMBEL if coupled and job.params.temperature > 0 else EXTRA
    try:
        decode(lambda tokens: recomputed_logits(model, tokens), sequence, CounterNoise(), CONTEXT, use, stopped)
    except NumericsError:
        return sequence.output, "error"
    return sequence.output, sequence.finish_reason


def ending(job, output):
    """Why a text ends here, None if it does not, "late" if it should have ended before."""
    params, ends = job.params, ends_for(job.params, [EOS])
    reason = None
    for count in range(len(output) + 1):
        if reason is not None:
            return "late"
        if count and (output[count - 1] in ends or stop_found(params, output[:count]) is not None):
            reason = "stop"
        elif count == params.max_tokens or len(job.prompt) + count == CONTEXT:
            reason = "length"
    return reason


@torch.no_grad()
def rows(model, job, number, output):
    """The law of each token of an output, [T, V], from one pass over the whole text without a cache."""
    text = job.prompt + list(output)
    logits = model(input_ids=torch.tensor([text]), use_cache=False).logits[0]
    sequence, found = fresh(job, number), []
    for place in range(len(job.prompt), len(text)):
        sequence.tokens = text[:place]
        found.append(warp_next(logits[place - 1], sequence))
    return torch.stack(found) if found else torch.zeros(0, VOCABULARY).double()
