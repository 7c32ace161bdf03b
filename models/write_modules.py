#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a module tree (fsdpsim.modules/1) from any nn.Module.

    write_modules.py FILE.py:FUNCTION [--name NAME] [--loss sum] > mine.json

FUNCTION() returns the module. It is built on the meta device, so its size does not matter, and its
forward runs once on token ids [batch, sequence] (or on --input). What it calls is written down
module by module; when each variable dies is seen, not guessed: the weak reference of a tensor tells.
Sizes equal to --batch and --sequence become "batch" and "sequence", so these two should be no other
size of the model.

A module that does what the simulator has no operator for is written without calls: it is gathered,
freed and reduced like any other, but nothing is said of its activations. Why goes to stderr.
Needs PyTorch 2.6 or later."""
import argparse
import importlib.util
import inspect
import json
import sys
import weakref

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64",
          torch.int32: "i32", torch.bool: "u8", torch.uint8: "u8", torch.complex64: "c64"}


class Unknown(Exception):
    """No operator for that."""


class Frame:
    """A forward that runs: names of its values, what it has called."""

    def __init__(self, path, module):
        self.path, self.module = path, module
        self.names, self.calls, self.deaths = {}, [], []
        self.count = 0
        self.reason = None  # why its calls are not known

    def add(self, tensor, name=None):
        if name is None:
            name = f"v{self.count}"
            self.count += 1
        # A tensor's wrapper dies with its last Python reference.
        self.names[id(tensor)] = (name, weakref.ref(tensor, lambda _: self.deaths.append(name)))
        return name

    def find(self, tensor):
        name, reference = self.names.get(id(tensor), (None, lambda: None))
        return name if reference() is tensor else None

    def settle(self):
        """What died since goes with the call made last."""
        if self.calls and self.deaths:
            keep = set(self.inputs)
            deaths = [name for name in self.deaths if name not in keep]
            if deaths:
                self.calls[-1].setdefault("delete", []).extend(deaths)
        self.deaths.clear()


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Tracer(TorchFunctionMode):
    def __init__(self, model, batch, sequence):
        super().__init__()
        self.batch, self.sequence = batch, sequence
        self.stack, self.entries = [], {}
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.parameters = {}
        for path, module in model.named_modules():
            for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
                self.parameters.setdefault(id(parameter), []).append((path, name))
        self.buffers = {id(b): name for name, b in model.named_buffers()}
        self.used_buffers = {}

    # Shapes

    def dim(self, size):
        if size == self.batch:
            return "batch"
        return "sequence" if size == self.sequence else size

    def shape(self, sizes):
        product = self.batch * self.sequence
        return [-1 if size == product else self.dim(size) for size in sizes]

    # Operands

    def operand(self, frame, tensor):
        name = frame.find(tensor)
        if name is not None:
            return name
        for path, parameter in self.parameters.get(id(tensor), []):
            if path == frame.path:
                return parameter
        if id(tensor) in self.buffers:
            name = self.buffers[id(tensor)]
            self.used_buffers[name] = tensor
            return name
        if id(tensor) in self.parameters:
            raise Unknown(f"it uses the parameter {self.parameters[id(tensor)][0]} of another")
        raise Unknown("it uses a tensor from elsewhere")

    # Functions

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        frame = self.stack[-1] if self.stack else None
        if frame is not None:
            frame.settle()
        result = function(*args, **kwargs)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        if frame is None or not all(isinstance(output, torch.Tensor) for output in outputs):
            return result  # a size, a dtype
        if len(outputs) == 0 or frame.reason is not None:
            return result
        try:
            self.record(frame, function, args, kwargs, outputs)
        except Unknown as reason:
            frame.reason = str(reason)
        return result

    def record(self, frame, function, args, kwargs, outputs):
        name = (resolve_name(function) or str(function)).split(".")[-1].strip("_")
        rule = RULES.get(name)
        if rule is None:
            raise Unknown(f"{resolve_name(function) or function} is no operator here")
        if len(outputs) == 1 and any(outputs[0] is tensor for tensor in tensors((args, kwargs))):
            return  # nothing happened: .to() of the same type, .contiguous()
        call, inputs = rule(self, outputs, *args, **kwargs)
        call["inputs"] = [self.operand(frame, tensor) for tensor in inputs]
        call["outputs"] = [frame.add(output) for output in outputs]
        frame.calls.append(call)

    # Modules

    def call(self, original, module, args, kwargs):
        caller = self.stack[-1] if self.stack else None
        path = self.paths.get(id(module))
        if path is None:
            raise SystemExit(f"a {type(module).__name__} that is no part of the model was called")
        frame = Frame(path, module)
        inputs = tensors((args, kwargs))
        frame.inputs = argument_names(module, len(inputs))
        for tensor, name in zip(inputs, frame.inputs):
            frame.add(tensor, name)
        if caller is not None:
            caller.settle()
        self.stack.append(frame)
        result = original(module, *args, **kwargs)
        self.stack.pop()
        frame.settle()
        outputs = tensors(result)
        self.finish(frame, outputs)
        if caller is not None and caller.reason is None:
            try:
                names = [self.operand(caller, tensor) for tensor in inputs]
                if any(caller.find(output) is not None for output in outputs):
                    raise Unknown(f"{path} gives back what it was given")
                caller.calls.append({"module": path, "inputs": names,
                                     "outputs": [caller.add(output) for output in outputs]})
            except Unknown as reason:
                caller.reason = str(reason)
        return result

    def finish(self, frame, outputs):
        if frame.path in self.entries:
            return
        entry = {"inputs": frame.inputs}
        names = [frame.find(output) for output in outputs]
        if frame.reason is None and (None in names or not 1 <= len(names) <= 3):
            frame.reason = "its results are not its own, or more than three"
        if frame.reason is None:
            frame.calls = [drop_results(call, names) for call in frame.calls]
            entry.update(outputs=names, calls=frame.calls)
        else:
            shapes = [[self.dim(size) for size in output.shape] for output in outputs][:3]
            entry.update(outputs=[f"y{i}" for i in range(len(shapes))], output_shapes=shapes)
            print(f"{frame.path or 'the root'}: without calls: {frame.reason}", file=sys.stderr)
        self.entries[frame.path] = entry


def drop_results(call, names):
    call["delete"] = [name for name in call.get("delete", []) if name not in names]
    if not call["delete"]:
        del call["delete"]
    return call


def argument_names(module, count):
    names = [name for name, parameter in inspect.signature(module.forward).parameters.items()
             if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    taken = {name for name, _ in module.named_parameters(recurse=False)}
    return [names[i] if i < len(names) and names[i] not in taken else f"input{i}"
            for i in range(count)]


# How functions of torch are called as operators: (tracer, outputs, its arguments) -> call, inputs.

def plain(operator, count):
    return lambda tracer, outputs, *args, **kwargs: ({"operator": operator}, list(args[:count]))


def linear(tracer, outputs, x, weight, bias=None):
    return {"operator": "linear"}, [x, weight] + ([] if bias is None else [bias])


def embedding(tracer, outputs, ids, weight, *args, **kwargs):
    return {"operator": "embedding"}, [weight, ids]


def layer_norm(tracer, outputs, x, shape, weight=None, bias=None, eps=1e-5):
    if weight is None or len(shape) != 1:
        raise Unknown("a layer norm without weights or over several dimensions")
    call = {"operator": "layer_norm", "scalar": eps}
    return call, [x, weight] + ([] if bias is None else [bias])


def rms_norm(tracer, outputs, x, shape, weight=None, eps=None):
    if weight is None or len(shape) != 1:
        raise Unknown("an RMS norm without weights or over several dimensions")
    return {"operator": "rms_norm", "scalar": eps or 1e-6}, [x, weight]


def attention(tracer, outputs, query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
    if attn_mask is not None or query.dim() != 4:
        raise Unknown("attention with a mask or without heads")
    return {"operator": "attention", "scalar": dropout_p}, [query, key, value]


def dropout(tracer, outputs, x, p=0.5, training=True, inplace=False):
    if inplace:
        raise Unknown("dropout in place")
    return {"operator": "dropout", "scalar": p}, [x]


def pointwise(operator):
    def rule(tracer, outputs, a, b, alpha=1):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and alpha == 1:
            return {"operator": operator}, [a, b]
        x, scalar = (a, b) if isinstance(a, torch.Tensor) else (b, a)
        return {"operator": operator + "_scalar", "scalar": float(scalar)}, [x]
    return rule


def power(tracer, outputs, x, exponent):
    return {"operator": "pow", "scalar": float(exponent)}, [x]


def last_dimension(operator):
    def rule(tracer, outputs, x, dim=None, keepdim=False, *args, **kwargs):
        dims = [dim] if isinstance(dim, int) else list(dim or [])
        if dims not in ([-1], [x.dim() - 1]) or (operator == "mean" and not keepdim):
            raise Unknown(f"{operator} over another dimension than the last")
        return {"operator": operator}, [x]
    return rule


def view(tracer, outputs, x, *args, **kwargs):
    return {"operator": "view", "shape": tracer.shape(outputs[0].shape)}, [x]


def expand(tracer, outputs, x, *args, **kwargs):
    return {"operator": "expand", "shape": tracer.shape(outputs[0].shape)}, [x]


def transpose(tracer, outputs, x, dim0=0, dim1=1):
    return {"operator": "transpose", "dims": [dim0 % x.dim(), dim1 % x.dim()]}, [x]


def matmul(tracer, outputs, a, b):
    if a.dim() != 3 or b.dim() != 3:
        raise Unknown("a product of other than three dimensions")
    return {"operator": "bmm"}, [a, b]


def cast(tracer, outputs, x, *args, **kwargs):
    return {"operator": "cast", "dtype": DTYPES[outputs[0].dtype]}, [x]


def join(tracer, outputs, parts, dim=0):
    if len(parts) != 2:
        raise Unknown("more than two parts joined")
    return {"operator": "cat", "dim": dim % parts[0].dim()}, list(parts)


def split(tracer, outputs, x, size, dim=0):
    lengths = {output.shape[dim] for output in outputs}
    if len(outputs) != 3 or len(lengths) != 1:
        raise Unknown("a split into other than three equal parts")
    return {"operator": "split", "dim": dim % x.dim(), "length": lengths.pop()}, [x]


def arange(tracer, outputs, *args, **kwargs):
    return {"operator": "arange", "shape": tracer.shape(outputs[0].shape)}, []


RULES = {
    "linear": linear, "embedding": embedding, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "scaled_dot_product_attention": attention, "dropout": dropout, "silu": plain("silu", 1),
    "gelu": plain("gelu", 1), "tanh": plain("tanh", 1), "rsqrt": plain("rsqrt", 1),
    "neg": plain("neg", 1), "add": pointwise("add"), "radd": pointwise("add"),
    "mul": pointwise("mul"), "rmul": pointwise("mul"), "pow": power,
    "mean": last_dimension("mean"), "softmax": last_dimension("softmax"),
    "log_softmax": last_dimension("log_softmax"), "view": view, "reshape": view, "flatten": view,
    "unflatten": view, "squeeze": view, "unsqueeze": view, "expand": expand,
    "expand_as": expand, "transpose": transpose, "contiguous": plain("clone", 1),
    "matmul": matmul, "bmm": matmul, "to": cast, "float": cast, "bfloat16": cast,
    "type_as": cast, "cat": join, "split": split, "chunk": split, "arange": arange,
}


def is_below(path, opaque):
    return any(path != other and (other == "" or path.startswith(other + ".")) for other in opaque)


def describe(model, tracer, name, loss, given):
    """The file: modules in the order of named_modules, tied parameters by their first name."""
    opaque = [path for path, entry in tracer.entries.items() if "calls" not in entry]
    modules, first, tied = [], {}, []
    for path, module in model.named_modules():
        entry = {"path": path}
        own = list(module.named_parameters(recurse=False, remove_duplicate=False))
        if own:
            entry["parameters"] = [{"name": n, "shape": list(p.shape) or [1]} for n, p in own]
        for n, p in own:
            full = f"{path}.{n}" if path else n
            if first.setdefault(id(p), full) != full:
                tied.append([first[id(p)], full])
        if not is_below(path, opaque):
            entry.update(tracer.entries.get(path, {}))
        if len(entry) > 1:
            modules.append(entry)
    tree = {"schema": "fsdpsim.modules/1", "name": name, "inputs": [given], "loss": loss}
    if tracer.used_buffers:
        tree["buffers"] = [{"name": n, "shape": list(b.shape), "dtype": DTYPES[b.dtype]}
                           for n, b in tracer.used_buffers.items()]
    if tied:
        tree["tied"] = tied
    head = json.dumps(tree)[:-1]
    lines = ",\n  ".join(json.dumps(entry) for entry in modules)
    return f'{head}, "modules": [\n  {lines}\n]}}'


def trace(model, given, batch, sequence):
    tracer = Tracer(model, batch, sequence)
    original = torch.nn.Module.__call__
    torch.nn.Module.__call__ = lambda m, *a, **k: tracer.call(original, m, a, k)
    try:
        with torch.inference_mode(), torch.device("meta"), tracer:
            model(given)
    finally:
        torch.nn.Module.__call__ = original
    return tracer


def make_input(text, batch, sequence):
    """"f32:batch,3,224,224" -> what the file says of it, and the tensor."""
    if text is None:
        return "tokens", torch.zeros(batch, sequence, dtype=torch.int64, device="meta")
    dtype, shape = text.split(":")
    words = [word if word in ("batch", "sequence") else int(word) for word in shape.split(",")]
    sizes = [{"batch": batch, "sequence": sequence}.get(word, word) for word in words]
    types = {name: dtype for dtype, name in DTYPES.items()}
    return ({"name": "input", "shape": words, "dtype": dtype},
            torch.empty(sizes, dtype=types[dtype], device="meta"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="FILE.py:FUNCTION")
    parser.add_argument("--name", help="of the model (default: FUNCTION)")
    parser.add_argument("--loss", choices=["cross_entropy", "sum", "mean", "none"],
                        default="cross_entropy")
    parser.add_argument("--input", help='for example "f32:batch,3,224,224" (default: token ids)')
    parser.add_argument("--batch", type=int, default=7)
    parser.add_argument("--sequence", type=int, default=13)
    options = parser.parse_args()
    file, function = options.target.rsplit(":", 1)
    spec = importlib.util.spec_from_file_location("target", file)
    target = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(target)
    with torch.device("meta"):
        model = getattr(target, function)()
    given, tensor = make_input(options.input, options.batch, options.sequence)
    tracer = trace(model, tensor, options.batch, options.sequence)
    print(describe(model, tracer, options.name or function, options.loss, given))


if __name__ == "__main__":
    main()
