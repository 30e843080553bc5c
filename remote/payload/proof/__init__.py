"""The proof that half precision trains: hooks injected into the command, and checks of the recorded evidence."""
