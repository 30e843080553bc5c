"""The hooks inside the training process: copied beside a `sitecustomize`, so these modules import only each other."""
