"""The six stages. Each stage declares its inputs, checks whether its result is still valid, and produces the result."""
