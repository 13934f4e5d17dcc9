"""torch.compile(model, backend="tracewright") with the real PyTorch: results are those of eager mode, and what is left
to PyTorch is said. Run by tests/scripts/nightly_python.sh."""
import gc
import os
import threading
import unittest

import torch
from torch import nn

import tracewright.torch as backend

# By its name where the package is installed; a build folder has no entry points.
BACKEND = "tracewright" if "tracewright" in torch._dynamo.list_backends(exclude_tags=()) else backend.backend


class Block(nn.Module):
    """A residual block with batch norm."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
                                 nn.MaxPool2d(3, 2, 1), Block(16, 32, 2), Block(32, 32, 1), nn.AdaptiveAvgPool2d(1),
                                 nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10))
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.5, 0.5)
                nn.init.uniform_(module.running_var, 0.5, 2)

    def forward(self, x):
        return self.net(x)


class Text(nn.Module):
    """Two layers of a transformer, with an embedding and a mask."""

    def __init__(self, width=64):
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.places = nn.Parameter(torch.randn(32, width) * 0.1)
        self.layers = nn.ModuleList([nn.ModuleDict({
            "norm": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(2)])
        self.head = nn.Linear(width, 100)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.words(tokens) + self.places[:length]
        for layer in self.layers:
            q, k, v = (part.view(batch, length, 4, -1).transpose(1, 2) for part in layer["qkv"](layer["norm"](x)).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](y.transpose(1, 2).reshape(batch, length, -1))
            x = x + layer["down"](nn.functional.gelu(layer["up"](layer["norm2"](x))))
        return self.head(x)


class WithSvd(nn.Module):
    """Singular values in the middle, which ONNX does not have."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        y = torch.tanh(self.before(x)) * 2
        left, values, _ = torch.linalg.svd(y, full_matrices=False)
        return self.after(torch.relu(y @ y.T @ left.abs() + 1)), values, x.shape[0]


class Compiled(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        backend.forget()

    def compile(self, model, **options):
        return torch.compile(model, backend=BACKEND, options=options or None)

    def expect_same(self, compiled, model, *inputs):
        with torch.no_grad():
            found, expected = compiled(*inputs), model(*inputs)
        for one, other in zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]:
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
            else:
                self.assertEqual(one, other)

    def expect_whole(self, graphs):
        self.assertEqual(len(backend.report()), graphs)
        for report in backend.report():
            self.assertEqual((report.taken, report.parts, report.refusals), (report.nodes, 1, []), str(report))

    def test_a_convolutional_network_is_one_library(self):
        model = Pictures().eval()
        compiled = self.compile(model)
        self.expect_same(compiled, model, torch.randn(2, 3, 64, 64))
        self.expect_same(compiled, model, torch.randn(2, 3, 64, 64))
        self.expect_same(compiled, model, torch.randn(2, 3, 64, 64).contiguous(memory_format=torch.channels_last))
        self.assertGreater(backend.report()[0].nodes, 15)
        self.expect_whole(2)  # another order of the same elements is another graph

    def test_a_transformer_is_one_library_for_each_length(self):
        model = Text().eval()
        compiled = self.compile(model)
        for length in (16, 7, 12):
            self.expect_same(compiled, model, torch.randint(100, (2, length)))
        self.expect_whole(3)

    def test_what_onnx_lacks_runs_in_pytorch_and_is_said(self):
        model = WithSvd().eval()
        with self.assertLogs("tracewright.torch", "WARNING") as said:
            self.expect_same(self.compile(model, threads=1), model, torch.randn(8, 8))
        self.assertIn("svd", said.output[0])
        (report,) = backend.report()
        self.assertTrue(0 < report.taken < report.nodes, str(report))
        self.assertEqual([("svd" in refusal.operator, "No ONNX function" in refusal.reason)
                          for refusal in report.refusals], [(True, True)], str(report))

    def test_changed_parameters_are_seen(self):
        model = Pictures().eval()
        compiled, x = self.compile(model), torch.randn(1, 3, 32, 32)
        self.expect_same(compiled, model, x)
        with torch.no_grad():
            model.net[9].weight.mul_(2)
        self.expect_same(compiled, model, x)
        model.load_state_dict(Pictures().state_dict())
        self.expect_same(compiled, model, x)
        model.net[9].weight = nn.Parameter(torch.randn(10, 32))
        self.expect_same(compiled, model, x)

    def test_gradients_are_pytorchs(self):
        model, x = Pictures().eval(), torch.randn(1, 3, 32, 32)
        self.compile(model)(x).sum().backward()
        found = model.net[9].weight.grad.clone()
        model.zero_grad()
        model(x).sum().backward()
        torch.testing.assert_close(found, model.net[9].weight.grad)
        self.assertIn("gradients", str(backend.report()[0]))

    def test_training_writes_its_statistics(self):
        model, other = Pictures(), Pictures()
        other.load_state_dict(model.state_dict())
        x = torch.randn(4, 3, 32, 32)
        with torch.no_grad():
            torch.manual_seed(1)
            self.compile(model)(x)
            torch.manual_seed(1)
            other(x)
        for one, two in zip(model.buffers(), other.buffers()):
            torch.testing.assert_close(one, two)
        self.assertIn("writes into", str(backend.report()[0]))

    def test_a_written_input_is_written(self):
        def step(x):
            x.add_(1)
            return torch.relu(x @ x)
        x, y = torch.ones(4, 4), torch.ones(4, 4)
        torch.testing.assert_close(self.compile(step)(x), step(y))
        torch.testing.assert_close(x, y)

    def test_random_numbers_stay_random(self):
        def noisy(x):
            y = torch.relu(x @ x)
            return nn.functional.dropout(y, 0.5, True), y + torch.rand_like(y), torch.randn(64) * 2
        compiled, x = self.compile(noisy), torch.rand(64, 64)
        for one, other in zip(compiled(x), compiled(x)):
            self.assertFalse(torch.equal(one, other))

    def test_other_types(self):
        def mixed(x, mask, index):
            return torch.where(mask, x.to(torch.bfloat16) * 2, 0), x.double() @ x.T.double(), index + 1, x > 0
        self.expect_same(self.compile(mixed), mixed, torch.randn(4, 4), torch.rand(4, 4) > 0.5, torch.arange(4))

    def test_complex_numbers_stay_in_pytorch(self):
        def waves(x, z):
            return torch.relu(x @ x) * 2 + 1, (z * z).real, torch.fft.rfft(torch.tanh(x) * 2).abs()
        self.expect_same(self.compile(waves), waves, torch.randn(4, 4), torch.randn(4, 4, dtype=torch.complex64))
        self.assertTrue(0 < backend.report()[0].taken < backend.report()[0].nodes, str(backend.report()[0]))

    def test_several_graphs_of_one_model(self):
        def broken(x):
            y = torch.relu(x @ x.T) + 1
            torch._dynamo.graph_break()
            return {"z": torch.tanh(y @ x) * 2, "n": None, "k": 3}["z"], x
        self.expect_same(self.compile(broken), broken, torch.randn(4, 8))
        self.expect_whole(2)

    def test_attention_as_a_module(self):
        model = nn.MultiheadAttention(32, 4, batch_first=True).eval()

        def attend(x):
            return model(x, x, x)[0]
        self.expect_same(self.compile(attend), attend, torch.randn(2, 6, 32))
        self.expect_whole(1)

    def test_an_unknown_option_is_an_error(self):
        with self.assertRaisesRegex(Exception, "the backend has no option thread"):
            self.compile(nn.Linear(2, 2), thread=1)(torch.ones(2, 2))

    def test_threads_share_a_compiled_function(self):
        model = Text().eval()
        compiled, tokens = self.compile(model, threads=1), torch.randint(100, (1, 8))
        self.expect_same(compiled, model, tokens)
        with torch.no_grad():
            expected, wrong = model(tokens), []

            def calls():
                with torch.no_grad():
                    for _ in range(20):
                        if not torch.allclose(compiled(tokens), expected, atol=1e-3):
                            wrong.append(1)
            threads = [threading.Thread(target=calls) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_folders_go_with_the_graphs(self):
        from tracewright import _model
        made, compile = [], _model.compile
        _model.compile = lambda *a, **b: made.append(compile(*a, **b)) or made[-1]
        self.addCleanup(setattr, _model, "compile", compile)
        model = nn.Linear(8, 8).eval()
        self.expect_same(self.compile(nn.Sequential(model, nn.ReLU())), nn.Sequential(model, nn.ReLU()), torch.ones(2, 8))
        folder = made.pop().folder
        self.assertTrue(os.path.isdir(folder))
        torch._dynamo.reset()
        gc.collect()
        self.assertFalse(os.path.isdir(folder))


if __name__ == "__main__":
    unittest.main()
