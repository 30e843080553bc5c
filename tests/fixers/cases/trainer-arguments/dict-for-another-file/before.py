TRAINING = {
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "learning_rate": 2e-5,
    "logging_dir": "logs",
    "evaluation_strategy": "epoch",
}
LAYOUT = {"output_dir": "out", "logging_dir": "logs"}
