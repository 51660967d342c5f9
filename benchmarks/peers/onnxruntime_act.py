#!/usr/bin/env python3
"""What ONNX Runtime takes per node: a peer of benchmarks/act_cost.

A chain of nodes on one float, graph optimisations off, one thread, operands
bound beforehand; the time of a run of a short chain is taken off, so that what
a call costs does not count. Needs onnx, onnxruntime and numpy of PyPI, in a
virtual environment of their own.
"""

import argparse
import statistics
import time

import numpy
import onnx
import onnxruntime


def session(op, length):
    nodes = [
        onnx.helper.make_node(op, [f'x{i}'], [f'x{i + 1}'])
        for i in range(length)
    ]
    value = lambda name: onnx.helper.make_tensor_value_info(
        name, onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph(nodes, 'chain', [value('x0')],
                                   [value(f'x{length}')])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid('', 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=['CPUExecutionProvider'])


def seconds(op, length, repeats, runs):
    """Seconds of one run, for each of `repeats` groups of runs."""
    s = session(op, length)
    binding = s.io_binding()
    binding.bind_cpu_input('x0', numpy.zeros([1], numpy.float32))
    binding.bind_output(f'x{length}', 'cpu')
    for _ in range(3):
        s.run_with_iobinding(binding)
    result = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(runs):
            s.run_with_iobinding(binding)
        result.append((time.perf_counter() - start) / runs)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--length', type=int, default=1000)
    parser.add_argument('--repeats', type=int, default=21)
    args = parser.parse_args()
    for op in ('Identity', 'Neg'):
        short = min(seconds(op, 1, args.repeats, 1000))
        ns = sorted((t - short) / (args.length - 1) * 1e9
                    for t in seconds(op, args.length, args.repeats, 50))
        print('RESULT', 'act', f'onnxruntime {onnxruntime.__version__} {op}',
              'per node', f'{statistics.median(ns):.1f}', f'{ns[0]:.1f}',
              f'{ns[-1]:.1f}', len(ns), 'ns', sep='\t')


if __name__ == '__main__':
    main()
