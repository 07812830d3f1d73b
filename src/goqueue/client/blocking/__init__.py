"""The client without `await`: each object of the client, run by a loop in a background thread.

No logic of its own belongs here. `goqueue.client.sync` is the way in; begin with `loop`.
"""
