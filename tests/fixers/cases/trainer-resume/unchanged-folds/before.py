from transformers import Trainer


def train_fold(rows):
    trainer = Trainer(model=fresh(), args=args, train_dataset=rows)
    trainer.train()


def main():
    for rows in folds:
        train_fold(rows)


main()
