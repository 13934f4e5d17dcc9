from ._tensor import Tensor


class Parameter(Tensor):
    def __init__(self, tensor, requires_grad=True):
        super().__init__(tensor.array, requires_grad)


class Module:
    def register_buffer(self, name, tensor):
        setattr(self, name, tensor)

    def __call__(self, *inputs):
        return self.forward(*inputs)
