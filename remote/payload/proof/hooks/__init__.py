"""What runs inside the training process: copied beside a `sitecustomize`, so its modules import only each other."""
