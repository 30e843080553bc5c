from transformers import Trainer


class Run:
    def go(self, bundle, fp16):
        for parameter in self.net.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        one = Trainer(model=self.net, args=self.args)
        for parameter in bundle.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        two = Trainer(model=bundle.model, args=self.args)
        three = Trainer(model=bundle.weights, args=self.args)
        for parameter in three.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
