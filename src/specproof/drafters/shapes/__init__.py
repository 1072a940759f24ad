"""Shapes of drafts as pure functions: which nodes are worth a place in the target's forward pass.

Two kinds. A *static* shape (`sequoia`) is chosen before anything is drawn, from acceptance measured elsewhere:
right for every way of drawing. A shape that looks at the drafted tokens' own probabilities (`expand`,
`best_first`) is for point drafts only: a sampled node that is dropped because of its own value biases the text.
"""
