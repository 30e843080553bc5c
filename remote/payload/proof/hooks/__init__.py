"""What runs inside the training process: copied beside a `sitecustomize`, so it imports nothing of ours but itself."""
