"""Each rule once more, scalar, for one draft, over an abstract number: to be read, summed and proved.

A specification takes target rows and drawn rows (lists of lists), the tree, the tokens and the numbers to
compute with. On `fractions.Fraction` it gives exact values; the torch rules are tested against it. A module
`name` holds `name`, and `name_drawn` beside it where drafts drawn so are judged otherwise.
"""
