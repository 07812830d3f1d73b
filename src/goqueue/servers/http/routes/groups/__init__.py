"""Routes of groups: what they are and where they stand, and the two protocols of membership."""
