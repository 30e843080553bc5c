from transformers import Trainer


class Run:
    def go(self, bundle, fp16):
        one = Trainer(model=self.net, args=self.args)
        two = Trainer(model=bundle.model, args=self.args)
        three = Trainer(model=bundle.weights, args=self.args)
