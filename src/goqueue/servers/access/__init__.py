"""What each operation needs, and the services that check it.

`rules` is the table: every method of a service that a front-end may call, with the operations and resources that it
needs. `doorkeeper` puts a checking object in the place of every service; what is not in the table is refused.
`doors` has what each Kafka API and each HTTP route needs by itself. `page` writes the reference page from the tables.
Nothing here knows a protocol. Begin with `rules`.
"""
