"""Front-ends: thin translations of a wire onto the same services."""
