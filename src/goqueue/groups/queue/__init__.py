"""Queue groups: how a group becomes one, what it may alter, and members of the share protocol (KIP-932).

Who may use a group, and as what. Messages and their leases are not here: `goqueue.delivery` has them, behind
`delivery_port.py`.
Begin with `requests.py`.
"""
