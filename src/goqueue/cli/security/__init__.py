"""`goqueue security`: certificates and the first administrator (`files`), users, keys, roles and rules (`commands`)."""
