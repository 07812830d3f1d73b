"""The story of every message: what happened to it, when, and through whom.

Events are ranges of offsets of one partition. `recorder` takes them from hooks that the node installs, `chunks`
encodes what 100 ms brought, `store` writes that to `__traces` and finds it again through `index`, and `reader`
puts the story of one message together. `export/` sends spans to other systems. Begin with `events`, then
`recorder`, then `reader`.

No feature knows this package: features call what the node hands them.
"""
