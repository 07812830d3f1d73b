"""Where clients connect: sockets that are bound before anything is opened, and what is behind them.

`claims.py` takes addresses and the data directory, `doors.py` makes doors of bound sockets, `tls.py` keeps their
certificates. Protocols live in `servers`.
"""
