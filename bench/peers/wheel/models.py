"""Whole models in ONNX files, for `tracewright bench MODEL.onnx`. runtime/peers/model_peer.h says what is asked and
answered. A library is a class: Library(threads), which raises Missing; load(path, inputs), which gives a function that
runs the model once, one that gives its outputs, and how it is run. Arrays are bound before anything is timed."""
import json
import operator
import statistics
import time

from library import BadRequest, Unsupported, map_file, module

TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8",
         "u8": "uint8", "bool": "bool"}


class OnnxRuntime:
    def __init__(self, threads):
        self.module, self.threads = module("onnxruntime"), threads
        self.version = f"ONNX Runtime {self.module.__version__}"

    def session(self, path, extents):
        settings = self.module.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = self.threads, 1
        settings.graph_optimization_level = self.module.GraphOptimizationLevel.ORT_ENABLE_ALL
        for name, extent in extents.items():
            settings.add_free_dimension_override_by_name(name, extent)
        return self.module.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    def load(self, path, inputs):
        session = self.session(path, {})
        extents = {name: extent for entry in session.get_inputs()
                   for name, extent in zip(entry.shape, inputs[entry.name].shape) if isinstance(name, str)}
        if extents:  # shapes that are known are worth something to it
            session = self.session(path, extents)
        binding, outputs = session.io_binding(), session.run(None, inputs)
        value = self.module.OrtValue.ortvalue_from_numpy
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, value(array))
        results = [value(array) for array in outputs]
        for entry, bound in zip(session.get_outputs(), results):
            binding.bind_ortvalue_output(entry.name, bound)
        return lambda: session.run_with_iobinding(binding), lambda: [result.numpy() for result in results], ""


class OpenVino:
    def __init__(self, threads):
        self.module, self.threads = module("openvino"), threads
        self.version = f"OpenVINO {self.module.__version__.split('-')[0]}"

    def load(self, path, inputs):
        core = self.module.Core()
        model = core.read_model(path)
        if model.is_dynamic():
            model.reshape({name: list(array.shape) for name, array in inputs.items()})
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": self.threads,
                    "PERFORMANCE_HINT": "LATENCY"}
        compiled = core.compile_model(model, "CPU", settings)
        request = compiled.create_infer_request()
        for name, array in inputs.items():
            request.set_tensor(name, self.module.Tensor(array, shared_memory=True))
        count = len(compiled.outputs)
        return (lambda: request.infer(share_outputs=True),
                lambda: [request.get_output_tensor(i).data for i in range(count)], "")


class Torch:
    """The file as a module of PyTorch, made by onnx2torch."""

    def __init__(self, threads):
        self.torch, self.onnx, self.convert = module("torch"), module("onnx"), module("onnx2torch").convert
        self.torch.set_num_threads(threads)
        self.version = f"PyTorch {self.torch.__version__}"

    def load(self, path, inputs):
        file = self.onnx.load(path)
        with_data = {tensor.name for tensor in file.graph.initializer}
        names = [entry.name for entry in file.graph.input if entry.name not in with_data]
        arguments = [self.torch.from_numpy(inputs[name].copy()) for name in names]
        try:
            function = self.prepared(self.convert(file).eval(), arguments)
        except NotImplementedError as wrong:
            raise Unsupported(f"onnx2torch: {wrong}") from None
        latest = [None]

        def run():
            with self.torch.inference_mode():
                latest[0] = function(*arguments)

        def outputs():
            results = latest[0] if isinstance(latest[0], (tuple, list)) else [latest[0]]
            return [result.numpy() for result in results]

        return run, outputs, self.detail

    detail = "eager, by onnx2torch"

    def prepared(self, model, _):
        return model


class CompiledTorch(Torch):
    detail = "torch.compile with freezing, by onnx2torch"

    def prepared(self, model, arguments):
        module("torch._inductor.config").freezing = True  # weights are constants, as they are for the others
        with_fixed_sizes(model)
        with self.torch.no_grad():  # one graph of ATen's operators, without the modules of onnx2torch
            graph = module("torch.fx.experimental.proxy_tensor").make_fx(model)(*arguments)
        return self.torch.compile(graph)


def with_fixed_sizes(model):
    """Sizes that are constant tensors become numbers: those of a tensor cannot be traced."""
    ways = {"OnnxReshape": "reshape", "OnnxExpand": "expand"}
    for node in list(model.graph.nodes):
        way = ways.get(type(model.get_submodule(node.target)).__name__) if node.op == "call_module" else None
        if way is None or node.args[1].op != "get_attr":
            continue
        sizes = operator.attrgetter(node.args[1].target)(model).tolist()
        if 0 in sizes:  # of the operand
            continue
        with model.graph.inserting_before(node):
            node.replace_all_uses_with(model.graph.call_method(way, (node.args[0], *sizes)))
        model.graph.erase_node(node)
    model.recompile()


MODEL_LIBRARIES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch-eager": Torch,
                   "torch-compile": CompiledTorch}


class ModelSession:
    def __init__(self, library):
        self.library, self.numpy = library, module("numpy")
        self.inputs, self.run, self.outputs = {}, None, None

    def requests(self):
        return {"load": self.load, "turn": self.turn, "output": self.output}

    def load(self, text):
        self.run = None
        try:
            asked = json.loads(text)
            # Kept, because the libraries only point to the arrays.
            path, self.inputs = asked["model"], {entry["name"]: self.array(entry) for entry in asked["inputs"]}
        except (ValueError, KeyError, TypeError):
            raise BadRequest("a model is an object with model and inputs") from None
        run, self.outputs, detail = self.library.load(path, self.inputs)
        run()
        self.run = run
        return json.dumps({"outputs": len(self.outputs()), "detail": detail})

    def array(self, entry):
        if entry["dtype"] not in TYPES:
            raise Unsupported(f"NumPy has no {entry['dtype']}")
        dtype, count = self.numpy.dtype(TYPES[entry["dtype"]]), 1
        for extent in entry["shape"]:
            count *= extent
        return self.numpy.frombuffer(map_file(entry["file"], count * dtype.itemsize), dtype).reshape(entry["shape"])

    def turn(self, argument):
        self.needs_model()
        self.run()
        taken, end = [], time.perf_counter_ns() + float(argument) * 1e9
        while not taken or time.perf_counter_ns() < end:
            begin = time.perf_counter_ns()
            self.run()
            taken.append(time.perf_counter_ns() - begin)
        return f"{statistics.median(taken)} {len(taken)}"

    def output(self, argument):
        self.needs_model()
        index, _, name = argument.partition(" ")
        array = self.numpy.ascontiguousarray(self.outputs()[int(index)])
        types = {numpy_name: own for own, numpy_name in TYPES.items()}
        shape = list(self.outputs()[int(index)].shape)
        with open(name, "r+b") as file:
            file.write(array.tobytes())
        return json.dumps({"dtype": types.get(array.dtype.name, array.dtype.name), "shape": shape})

    def needs_model(self):
        if self.run is None:
            raise BadRequest("no model is loaded")
