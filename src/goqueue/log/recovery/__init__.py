"""Recovery: from the files that a crash left to a log that can be read and written.

The scan behind the recovery point, the replay of producer state, and the cut of a torn tail.
Repair by hand, with the broker stopped, is in `log/inspection`.
Begin with `recovery.py`.
"""
