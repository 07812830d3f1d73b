"""Messages that are held back until they are due, and messages that come again and again."""
