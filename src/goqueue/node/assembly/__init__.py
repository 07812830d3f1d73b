"""How a node is put together: storage, then the paths of data, then the features, then what clients reach.

One file for each part, in the order of the start; `node/assemble.py` calls them one after the other. Each hands the
next a bundle of finished parts and leaves on the stack how they are closed again. Nothing here decides anything while
the node runs. Begin with `storage.py`.
"""
