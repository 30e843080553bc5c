"""One request being answered, what it names, and how it is refused."""
