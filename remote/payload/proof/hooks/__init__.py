"""The hooks inside the training process.

They are copied to a folder with a `sitecustomize` module, so they can import only each other.
"""
