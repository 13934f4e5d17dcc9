"""An exporter: by the package onnx, for a few operators."""
import operator
from types import SimpleNamespace

_KNOWN = {"relu": "Relu", "tanh": "Tanh", "add": "Add", "mm": "MatMul", "nonzero": "NonZero", "halves": "Split"}
exports = []  # names of the operators of each file


def export(program, dynamo, verbose):
    import onnx
    from onnx import helper, numpy_helper
    graph = program.graph
    exports.append([node.target.name for node in graph.nodes if hasattr(node.target, "name")])
    nodes, inputs, weights, names, outputs = [], [], [], {}, []

    def info(name, value):
        kind = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}[value.array.dtype.name]
        return helper.make_tensor_value_info(name, kind, value.shape)

    for node in graph.nodes:
        names[node] = node.name
        if node.op == "placeholder":
            inputs.append(info(node.name, node.meta["val"]))
        elif node.op == "get_attr":
            weights.append(numpy_helper.from_array(getattr(program.graph_module, node.target).array, node.name))
        elif node.op == "output":
            outputs = node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
        elif node.target is operator.getitem:
            names[node] = f"{names[node.args[0]]}.{node.args[1]}"
        elif node.target.name not in _KNOWN:
            raise RuntimeError(
                f"Failed\nNo ONNX function found for <OpOverload(op='aten.{node.target.name}', overload='default')>. "
                f"Failure message: none\nError when translating node %{node.name} : [num_users=1]")
        else:
            made = [f"{node.name}.{i}" for i in range(2)] if node.target.name == "halves" else [node.name]
            more = {"axis": 0} if node.target.name == "halves" else {}
            nodes.append(helper.make_node(_KNOWN[node.target.name], [names[each] for each in node.args], made,
                                          f"node_{node.name}", **more))
    found = helper.make_graph(nodes, "graph", inputs, [info(names[each], each.meta["val"]) for each in outputs], weights)
    model = helper.make_model(found, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    sources = [SimpleNamespace(name=node.name, metadata_props=[
        SimpleNamespace(key="pkg.torch.onnx.fx_node", value=f"%{node.name.removeprefix('node_')} : [num_users=1]")])
        for node in model.graph.node]
    return SimpleNamespace(model_proto=SimpleNamespace(SerializeToString=model.SerializeToString,
                                                       graph=SimpleNamespace(node=sources)))
