"""Parts are runs of neighbouring operators that are supported."""
import operator
from types import SimpleNamespace

from ... import Graph, GraphModule, map_nodes
from ....nn import Module


class CapabilityBasedPartitioner:
    def __init__(self, module, support, allowed_single_node_partition_ops=()):
        self.module, self.support, self.large = module, support, allowed_single_node_partition_ops

    def propose_partitions(self):
        runs, run = [], []
        for node in [*self.module.graph.nodes, None]:
            if node is not None and node.op in ("placeholder", "get_attr"):
                continue
            if node is not None and self.support.is_node_supported({}, node):
                run.append(node)
                continue
            compute = [each for each in run if each.target is not operator.getitem]
            if len(compute) > 1 or any(f"torch.ops.{each.target}".removesuffix(".default") in self.large for each in compute):
                runs.append(run)
            run = []
        return [SimpleNamespace(nodes=dict.fromkeys(run)) for run in runs]

    def fuse_partitions(self, parts):
        around, copies = Graph(), {}
        root = Module()
        vars(root).update(vars(self.module))
        first = {next(iter(part.nodes)): (f"fused_{i}", list(part.nodes)) for i, part in enumerate(parts)}
        inside = {node for _, nodes in first.values() for node in nodes}
        for node in self.module.graph.nodes:
            if node in first:
                self.fuse(root, around, copies, *first[node])
            elif node not in inside:
                copies[node] = around.node_copy(node, copies.__getitem__)
        return GraphModule(root, around)

    def fuse(self, root, around, copies, name, nodes):
        read = list(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in nodes))
        results = [node for node in nodes if any(node in user.all_input_nodes
                                                 for user in self.module.graph.nodes if user not in nodes)]
        graph, own = Graph(), {}
        for each in read:
            own[each] = graph.placeholder(each.name)
            own[each].meta = dict(each.meta)
        for node in nodes:
            own[node] = graph.node_copy(node, own.__getitem__)
        graph.output(own[results[0]] if len(results) == 1 else tuple(own[node] for node in results))
        setattr(root, name, GraphModule(Module(), graph))
        call = around.create("call_module", name, [copies[each] for each in read], name)
        for i, node in enumerate(results):
            copies[node] = call if len(results) == 1 else around.call_function(operator.getitem, (call, i))
            copies[node].meta = dict(node.meta)
