#!/usr/bin/env python3
"""Exports networks of torchvision and transformers with random weights as ONNX files, as torch.onnx writes them.

  python bench/models/export.py --output FOLDER [NAME ...]     writes FOLDER/NAME.onnx; all of them if no name is given

Needs torch, torchvision, transformers, onnx and onnxscript.
"""
import argparse
import logging
import pathlib
import sys
import warnings

NAMES = ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "vit_b_16", "bert_base", "gpt2")


def transformer(name, attention):
    """The model of a text as a module from tensors to a tuple of tensors, and the names of these."""
    import torch
    import transformers

    if name == "bert_base":
        model = transformers.BertModel(transformers.BertConfig(attn_implementation=attention))
        outputs = {"y": "last_hidden_state", "pooled": "pooler_output"}
    else:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation=attention, use_cache=False))
        outputs = {"y": "logits"}

    class Tensors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            result = self.model(*inputs)
            return tuple(result[field] for field in outputs.values())

    return Tensors(), list(outputs)


def randomize(model, x):
    """Noise for weights that all start as the same number; batch norms that make activations of order one."""
    import torch

    for parameter in model.parameters():
        if parameter.min() == parameter.max():
            parameter.data += 0.1 * torch.randn_like(parameter)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    if norms:
        for norm in norms:
            norm.train().momentum = 1.0  # the statistics of this run become its own
        with torch.no_grad():
            model(x)
    return model.eval()


def torch_model(name, batch=1, size=224, tokens=128, attention="sdpa", seed=0):
    """The model, its arguments by name, and the names of its outputs; every model of torchvision is known."""
    import torch

    torch.manual_seed(seed)
    if name in ("bert_base", "gpt2"):
        model, outputs = transformer(name, attention)
        inputs = {"input_ids": torch.randint(model.model.config.vocab_size, (batch, tokens))}
        if name == "bert_base":
            inputs["attention_mask"] = torch.ones(batch, tokens, dtype=torch.int64)
        return randomize(model.eval(), None), inputs, outputs
    import torchvision

    x = torch.randn(batch, 3, size, size)
    return randomize(torchvision.models.get_model(name, weights=None).eval(), x), {"x": x}, ["y"]


def write(model, inputs, outputs, path, opset=None):
    """Exports a model that torch_model() gives, and says what the file holds."""
    import onnx
    import torch

    torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), output_names=outputs,
                      opset_version=opset, dynamo=True, external_data=False, verbose=False)
    written = onnx.load(path)
    versions = ", ".join(f"{entry.domain} opset {entry.version}".strip() for entry in written.opset_import)
    return f"{versions}, {len(written.graph.node)} nodes, {path.stat().st_size / 1e6:.1f} MB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}, or another model of torchvision")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="height and width of the images")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each text")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa",
                        help="in bert_base and gpt2: torch's own function, as transformers has it, or plain products")
    parser.add_argument("--opset", type=int, help="18 or later; torch's own choice if not given")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # of constants that were not folded
    options.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in options.names or NAMES:
        try:
            model = torch_model(name, options.batch, options.size, options.tokens, options.attention)
            line = write(*model, options.output / f"{name}.onnx", options.opset)
        except Exception as error:
            failed, line = True, f"not exported: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        print(f"{name}: {line}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
