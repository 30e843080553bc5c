"""Output to the terminal. No other package prints."""
