"""Suffix decoding: counts against a search of the text, drafts against prompt lookup, and what is remembered."""

import random
from collections import Counter

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import choose_drafter
from specproof.drafters.automaton import Match, SuffixAutomaton
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.suffix import SuffixDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules import RULES
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams, TokenSequence


def sequence(tokens):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(), 0)


def propose(drafter, tokens, budget=16):
    """Drafted paths, each as its tokens, in the order of the nodes."""
    draft = drafter.draft([sequence(tokens)], [budget], CounterNoise())
    tree, found = draft.trees[0], draft.tokens[0].tolist()
    return [[found[node] for node in tree.path(last)] for last in range(len(tree))]


def texts():
    source = random.Random(7)
    for _ in range(60):
        yield source.randint(1, 5), [source.randrange(3) for _ in range(source.randint(1, 40))]
    yield 3, [1] * 30
    yield 4, [1, 2] * 12


def check_counts(kind):
    """Occurrences and the latest end of every counted substring, while the text grows."""
    for longest, text in texts():
        automaton = kind(longest)
        for size, token in enumerate(text, start=1):
            automaton.append(token)
            ends: dict[tuple[int, ...], list[int]] = {}
            for end in range(1, size + 1):
                for length in range(1, min(end, longest + 1) + 1):
                    ends.setdefault(tuple(text[end - length : end]), []).append(end)
            for substring, places in ends.items():
                state = 0
                for part in substring:
                    state = automaton.next[state][part]
                assert automaton.count[state] == len(places), (text[:size], substring)
                assert automaton.last[state] == places[-1], (text[:size], substring)


def most_counts_raised(automaton, text):
    most = 0
    for token in text:
        automaton.append(token)
        state, raised = automaton._counted, 0
        while state > 0:
            state, raised = automaton.link[state], raised + 1
        most = max(most, raised)
    return most


class TestAutomaton:
    def test_counts_are_those_of_a_search(self):
        check_counts(SuffixAutomaton)

    def test_a_split_state_that_starts_from_nothing_is_seen(self):
        class Forgetful(SuffixAutomaton):
            def _add(self, following, length, count, last):
                return super()._add(following, length, 0, last)

        with pytest.raises(AssertionError):
            check_counts(Forgetful)

    @pytest.mark.parametrize("text", [[1] * 3000, [1, 2, 3] * 1000, None], ids=["one", "three", "random"])
    def test_it_is_linear_in_the_text(self, text):
        """Blumer et al.: at most 2n - 1 states and 3n - 4 transitions; a token raises at most 17 counts."""
        text = text or random.Random(1).choices(range(4), k=3000)
        automaton = SuffixAutomaton(16)
        assert most_counts_raised(automaton, text) <= 17
        assert len(automaton.next) <= 2 * len(text) - 1
        assert sum(map(len, automaton.next)) <= 3 * len(text) - 4

    def test_counting_suffixes_of_any_length_is_seen(self):
        class Longer(SuffixAutomaton):
            def _shortened(self, state, length):
                return state

        assert most_counts_raised(Longer(16), [1] * 300) == 300

    def test_a_match_is_the_longest_suffix_that_occurs(self):
        automaton = SuffixAutomaton(4)
        for token in [1, 2, 3, 4, 2, 3, 5]:
            automaton.append(token)
        assert automaton.match([9, 2, 3]).length == 2
        assert automaton.match([2, 3, 9]).length == 0
        assert automaton.match([7, 1, 2, 3, 4]).length == 4
        lengths = [match.length for match in automaton.suffixes(automaton.match([1, 2, 3]))]
        assert lengths == [3, 2]  # 3 alone occurs wherever 2 3 does

    def test_continuations_are_shares_the_latest_first_among_equals(self):
        automaton = SuffixAutomaton(4)
        for token in [1, 7, 1, 8, 1, 7, 1, 9, 1, -1, 1]:
            automaton.append(token)
        found = automaton.continuations(automaton.match([1]))
        assert [(share, token) for share, _, token in found] == [(0.5, 7), (0.25, 9), (0.25, 8)]
        assert automaton.continuations(Match(0, 0))[0][0] == 6 / 10


@pytest.mark.parametrize("branching", [True, False])
def test_suffix_conforms(branching):
    target = HFBackend(tiny_model("llama", 5))
    check_drafter(lambda: SuffixDrafter(branching=branching), target, budget=5)


def test_a_drafter_that_reads_what_was_rejected_is_seen():
    class Greedy(SuffixDrafter):
        def observe(self, batch, steps, output):
            for one in batch:
                self._own[one].append(0)

    target = HFBackend(tiny_model("llama", 5))
    with pytest.raises(AssertionError, match="without history"):
        check_drafter(Greedy, target, budget=5)


def test_each_token_is_read_once_and_none_is_read_again(monkeypatch):
    read = []
    append = SuffixAutomaton.append
    monkeypatch.setattr(SuffixAutomaton, "append", lambda self, token: (read.append(token), append(self, token)))
    drafter, one = SuffixDrafter(), sequence([1, 2, 1])
    for token in (2, 1, 3, 1, 2):
        drafter.draft([one], [4], CounterNoise())
        one.tokens.append(token)
    assert read == one.tokens[:-1]
    drafter.free([one])
    assert not drafter._own


class TestProposals:
    text = (1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2)

    def test_a_tree_where_continuations_split(self):
        """Twice the match of two tokens: both ways on, then the latest after each."""
        text = [1, 2, 3, 8, 1, 2, 4, 7, 1, 2, 3, 9, 1, 2, 4, 6, 1, 2]
        assert propose(SuffixDrafter(), text) == [[4], [3], [4, 6], [3, 9]]

    def test_a_chain_follows_the_most_frequent_then_the_latest(self):
        assert propose(SuffixDrafter(branching=False), self.text) == [[3], [3, 8], [3, 8, 1], [3, 8, 1, 2]]

    def test_more_is_accepted_in_expectation_than_after_the_latest_match(self):
        """The target follows the shares of the text: 3 after 2 with 2/3, 8 or 9 after 3, else the one way on."""
        rows = torch.full((10, 10), 0.1).double()
        pairs = Counter(zip(self.text, self.text[1:], strict=False))
        for token in {first for first, _ in pairs}:
            following = torch.tensor([float(pairs[token, then]) for then in range(10)]).double()
            rows[token] = following / following.sum()
        target = TableBackend(TableModel((torch.full((1, 10), 0.1).double(), rows)))

        def accepted(drafter):
            one = sequence(self.text)
            draft = drafter.draft([one], [16], CounterNoise())
            law = RULES["walk"](target.forward([one], draft).logits.softmax(-1), draft)
            return float((law.stop[0] * torch.tensor([0, *draft.trees[0].depths])).sum())

        assert accepted(NgramDrafter()) == pytest.approx(4 / 3, abs=1e-12)
        assert accepted(SuffixDrafter(branching=False)) == pytest.approx(5 / 3, abs=1e-12)
        assert accepted(SuffixDrafter()) == pytest.approx(5 / 3, abs=1e-12)
        # A short match that is not trusted for a second token: both first ones, so all of the mass.
        assert accepted(SuffixDrafter(factor=1)) == pytest.approx(1, abs=1e-12)
        assert accepted(SuffixDrafter(factor=1, branching=False)) == pytest.approx(1, abs=1e-12)
        assert accepted(NgramDrafter(length=2)) == pytest.approx(2 / 3, abs=1e-12)

    def test_a_longer_match_is_taken_where_it_is_surer(self):
        """After 7 1 2 came 5 each time; after any 2 came 5, 6 or 8."""
        text = [7, 1, 2, 5, 3, 2, 6, 3, 2, 8, 7, 1, 2]
        assert propose(SuffixDrafter(branching=False), text)[:3] == [[5], [5, 3], [5, 3, 2]]

    def test_rare_continuations_are_left_out(self):
        assert propose(SuffixDrafter(least=0.5), self.text) == [[3]]
        assert propose(SuffixDrafter(least=0.7), self.text) == []

    def test_its_length_follows_the_match(self):
        assert propose(SuffixDrafter(), [1, 5, 6, 7, 8, 9, 1]) == [[5], [5, 6]]
        assert len(propose(SuffixDrafter(factor=4), [1, 5, 6, 7, 8, 9, 1])) == 4
        assert propose(SuffixDrafter(factor=0.5), [1, 5, 6, 7, 8, 9, 1]) == []

    def test_a_shorter_match_is_taken_where_it_has_more_to_say(self):
        """After 4 4 came one token, then the text ends; after 4 came two."""
        assert propose(SuffixDrafter(), [4, 4, 4]) == [[4], [4, 4]]

    @pytest.mark.parametrize("tokens", [[1], [1, 2], [1, 2, 3, 4]])
    def test_nothing_without_a_match(self, tokens):
        assert propose(SuffixDrafter(), tokens) == []

    def test_budget(self):
        assert propose(SuffixDrafter(), self.text, budget=1) == [[3]]
        assert propose(SuffixDrafter(), self.text, budget=0) == []


class TestMemory:
    def test_it_is_off_unless_asked_for(self):
        for remember, expected in ((0, []), (8, [[7], [7, 8]])):
            drafter, one = SuffixDrafter(remember=remember), sequence([1])
            one.tokens += [5, 7, 8]
            drafter.draft([one], [4], CounterNoise())
            drafter.free([one])
            assert propose(drafter, [2, 5]) == expected

    def test_texts_do_not_run_into_each_other(self):
        drafter = SuffixDrafter(remember=40)
        for output in ([5, 7], [8, 9]):
            one = sequence([1])
            one.tokens += output
            drafter.draft([one], [4], CounterNoise())
            drafter.free([one])
        assert propose(drafter, [2, 7]) == []
        assert propose(drafter, [2, 5]) == [[7]]

    def test_it_stays_within_its_size_and_keeps_the_latest(self):
        drafter = SuffixDrafter(remember=20)
        for start in range(0, 300, 10):
            one = sequence([1])
            one.tokens += range(1000 + start, 1000 + start + 6)
            drafter.draft([one], [0], CounterNoise())
            drafter.free([one])
            assert sum(part.size for part in drafter._memory) <= 22
        assert propose(drafter, [1294]) == [[1295]]
        assert propose(drafter, [1004]) == []

    def test_under_shared_noise_a_text_does_not_depend_on_earlier_requests(self):
        target = TableBackend(TableModel.random(4, 2, torch.Generator().manual_seed(2)))
        params = SamplingParams(max_tokens=40, seed=5)
        alone = Engine(target, "suffix", "coupling", adaptive=False).generate([[1, 2]], params)[0]
        engine = Engine(target, SuffixDrafter(remember=200), "coupling", adaptive=False)
        engine.generate([[3, 1], [2, 2]], SamplingParams(max_tokens=60, seed=9))
        after = engine.generate([[1, 2]], params)[0]
        assert after.tokens == alone.tokens
        assert after.stats.drafted > alone.stats.drafted


def test_names_and_settings():
    target = HFBackend(tiny_model("llama", 5))
    assert choose_drafter("suffix", target).drawn == "point"
    with pytest.raises(SpecproofError, match="longest=0, factor=2"):
        SuffixDrafter(longest=0)
    for wrong in ({"factor": 0}, {"least": 1.5}, {"remember": -1}):
        with pytest.raises(SpecproofError, match="not allowed"):
            SuffixDrafter(**wrong)
