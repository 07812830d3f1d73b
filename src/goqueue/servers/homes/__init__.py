"""Operations at home: which node answers an operation, declared once for each, and how the others ask it.

`table` has a row for every route; a test fails for one that has none. `kinds` says what a row can be, `forwarding` asks
the node that a row names, `merging` makes one reply of several nodes'. One node alone uses none of this.
"""
