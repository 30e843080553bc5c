"""The six stages. Each declares its inputs, checks whether its result is still valid, and produces that result."""
