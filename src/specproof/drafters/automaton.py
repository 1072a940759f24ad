"""Every substring of a growing text, how often it occurred, and what followed it: a suffix automaton.

A state stands for substrings that end at the same places of the text; a link leads to the state of the longest
suffix that ends at more places. Appending a token costs amortised constant time, whatever the length of the text
(a constant number of counts is raised, one for each length of substring that is counted).

Source: Blumer et al. 1985 (the automaton).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Match(NamedTuple):
    """A substring: the state it belongs to, and its length."""

    state: int
    length: int


class SuffixAutomaton:
    """Counts the occurrences of all substrings up to a length.

    Args:
        longest: most tokens of a context; contexts and contexts with one more token are counted.

    Attributes:
        size: tokens appended.
        count: occurrences, of states that have a substring of at most `longest` + 1 tokens.
        last: position of the end of the latest occurrence, for the same states.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.size = 0
        self.next: list[dict[int, int]] = [{}]
        self.link = [-1]
        self.length = [0]  # of the longest substring of each state
        self.count = [0]
        self.last = [0]
        self._whole = 0  # state of the whole text
        self._counted = 0  # state of its longest counted suffix

    def append(self, token: int) -> None:
        """The text grows by one token."""
        self.size += 1
        self._extend(token)
        # The longest counted suffix grows too, then loses its first token if it is now too long.
        self._counted = self._shortened(self.next[self._counted][token], self.longest + 1)
        state = self._counted
        while state > 0:
            self.count[state] += 1
            self.last[state] = self.size
            state = self.link[state]

    def match(self, tail: Sequence[int]) -> Match:
        """The longest suffix of `tail`, up to `longest` tokens, that occurs in the text."""
        state = length = 0
        for token in tail[max(0, len(tail) - self.longest) :]:
            while state and token not in self.next[state]:
                state = self.link[state]
                length = self.length[state]
            if token in self.next[state]:
                state, length = self.next[state][token], length + 1
        return Match(state, length)

    def suffixes(self, match: Match) -> Iterator[Match]:
        """A match, then its suffixes that occur in more places, longest first; the empty one is left out."""
        state, length = match
        while state > 0:
            yield Match(state, length)
            state = self.link[state]
            length = self.length[state]

    def continuations(self, match: Match) -> list[tuple[float, Match, int]]:
        """What followed a substring: share of its continued occurrences, the longer substring, and the token.

        Most frequent first, of equally frequent ones the latest. Negative tokens (ends of texts) are no
        continuations. A substring beyond `longest` counts by its last tokens.
        """
        state, length = match
        if length > self.longest:
            state, length = self._shortened(state, self.longest), self.longest
        found = [(self.next[state][token], token) for token in self.next[state] if token >= 0]
        found.sort(key=lambda child: (-self.count[child[0]], -self.last[child[0]]))
        total = sum(self.count[child] for child, _ in found)
        return [(self.count[child] / total, Match(child, length + 1), token) for child, token in found]

    def _shortened(self, state: int, length: int) -> int:
        """The state of the last `length` tokens of a state's substrings that are at least so long."""
        while self.link[state] >= 0 and self.length[self.link[state]] >= length:
            state = self.link[state]
        return state

    def _extend(self, token: int) -> None:
        """One token of the automaton's construction; counts are the caller's."""
        new = self._add({}, self.length[self._whole] + 1, 0, 0)
        state = self._whole
        while state >= 0 and token not in self.next[state]:
            self.next[state][token] = new
            state = self.link[state]
        self._whole = new
        if state < 0:
            self.link[new] = 0
            return
        found = self.next[state][token]
        if self.length[found] == self.length[state] + 1:
            self.link[new] = found
            return
        # The shorter substrings of `found` now end at one more place than its longer ones.
        split = self._add(dict(self.next[found]), self.length[state] + 1, self.count[found], self.last[found])
        self.link[split] = self.link[found]
        self.link[found] = self.link[new] = split
        while state >= 0 and self.next[state].get(token) == found:
            self.next[state][token] = split
            state = self.link[state]

    def _add(self, following: dict[int, int], length: int, count: int, last: int) -> int:
        self.next.append(following)
        self.link.append(0)
        self.length.append(length)
        self.count.append(count)
        self.last.append(last)
        return len(self.next) - 1
