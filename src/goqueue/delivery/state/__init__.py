"""What one partition's delivery log makes of its records: the queues of all groups on the partition, without I/O.

`machine.py` decides commands and applies records, `queue.py` is where one group stands. `records.py` is what is
written, `commands.py` what is asked. Nothing here awaits, reads a clock or touches a file.
Begin with `machine.py`.
"""
