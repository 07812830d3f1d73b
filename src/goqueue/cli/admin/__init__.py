"""Commands that show and change what a running broker holds: topics, groups, transactions, nodes, contexts.

Begin with `topic`: the others follow its form.
"""
