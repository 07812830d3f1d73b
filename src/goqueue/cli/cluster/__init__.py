"""The commands of `goqueue cluster`: found one, run one on this machine, look at it, and act on it.

`commands` has the table. `describe` asks a running node over HTTP; `founding` and `up` work with files and processes;
`metadata_store` asks etcd itself, for when no node answers.
"""
