"""The hooks inside the training process. They are copied beside a `sitecustomize`, so they import only each other."""
