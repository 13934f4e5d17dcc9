import numpy as np


class dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


float32, int64, complex64 = dtype("float32"), dtype("int64"), dtype("complex64")
_TYPES = {"float32": float32, "int64": int64, "complex64": complex64}


class Device:
    def __init__(self, kind):
        self.type = kind

    def __str__(self):
        return self.type


class Tensor:
    def __init__(self, array, requires_grad=False, device="cpu"):
        self.array, self.requires_grad, self.device = np.asarray(array), requires_grad, Device(device)
        self._version = 0

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: _TYPES[self.array.dtype.name])

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def detach(self):
        return Tensor(self.array)

    def copy_(self, other):
        self.array[...] = other.array
        self._version += 1

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def tensor(values):
    return Tensor(np.asarray(values, np.float32))


def zeros(shape, dtype):
    return Tensor(np.zeros(shape, dtype.name))
