"""Rewrites the embedding model, so that it runs on its int8 weights. Pure functions on an ONNX file.

The file stores its weights as int8 and then turns them into float32: `Mul(Cast(w_q), w_scale)`. onnxruntime
computes that once, when it loads the file, and holds all of it as float32: four times the memory. Here each
`MatMul` with such a weight becomes a `DynamicQuantizeMatMul`, which multiplies int8 numbers, and the table of
the words is looked up before it is turned into float32. That takes half the time and 60 MB less.
"""

from collections.abc import Iterator
from typing import NamedTuple

QUANTISED, SCALE, AS_FLOAT = "_q", "_scale", "_f"
DOMAIN = "com.microsoft"

# Field numbers of ONNX's protocol buffers.
MODEL_GRAPH, MODEL_OPSET = 7, 8
GRAPH_NODE, GRAPH_INITIALIZER = 1, 5
NODE_INPUT, NODE_OUTPUT, NODE_TYPE, NODE_ATTRIBUTE, NODE_DOMAIN = 1, 2, 4, 5, 7
TENSOR_DIMENSION, TENSOR_NAME = 1, 8
OPSET_DOMAIN, OPSET_VERSION = 1, 2
# How a field is encoded.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """A field of a message: its number, its value, and all its bytes."""

    number: int
    value: "memoryview | int"
    whole: memoryview

    def text(self) -> str:
        return bytes(self.value).decode() if isinstance(self.value, memoryview) else ""


class Node(NamedTuple):
    """One operation of the graph."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[bytes, ...] = ()
    domain: str = ""

    def encoded(self) -> bytes:
        parts = [_field(NODE_INPUT, each.encode()) for each in self.inputs]
        parts += [_field(NODE_OUTPUT, each.encode()) for each in self.outputs]
        parts.append(_field(NODE_TYPE, self.operation.encode()))
        parts += [_field(NODE_ATTRIBUTE, each) for each in self.attributes]
        if self.domain:
            parts.append(_field(NODE_DOMAIN, self.domain.encode()))
        return _field(GRAPH_NODE, b"".join(parts))


def on_int8_weights(model: bytes) -> bytes:
    """The same model, computed on its int8 weights."""
    parts: list[bytes | memoryview] = []
    for field in _fields(memoryview(model)):
        if field.number == MODEL_GRAPH and isinstance(field.value, memoryview):
            parts.append(_field(MODEL_GRAPH, _graph(field.value)))
        else:
            parts.append(field.whole)
    opset = _field(OPSET_DOMAIN, DOMAIN.encode()) + _number(OPSET_VERSION << 3) + _number(1)
    return b"".join([*parts, _field(MODEL_OPSET, opset)])


def _graph(graph: memoryview) -> bytes:
    fields = list(_fields(graph))
    nodes = [_node(field) for field in fields if field.number == GRAPH_NODE]
    names = {_name(field) for field in fields if field.number == GRAPH_INITIALIZER}
    weights = {name.removesuffix(QUANTISED) for name in names if name.endswith(QUANTISED)}
    [cast] = {node.attributes for node in nodes if node.operation == "Cast" and node.inputs[0] in names}
    # A weight that is used in another way stays as it is.
    quantised = {name for name in weights if all(_is_rewritable(node, name) for node in nodes)}
    parts: list[bytes | memoryview] = []
    for field in fields:
        if field.number == GRAPH_NODE:
            parts += _rewritten(_node(field), quantised, cast, field.whole)
        elif field.number == GRAPH_INITIALIZER:
            multiplied = {f"{node.inputs[1]}{SCALE}" for node in nodes if node.operation == "MatMul"}
            parts.append(_flat(field) if _name(field) in multiplied else field.whole)
        else:
            parts.append(field.whole)
    return b"".join(parts)


def _is_rewritable(node: Node, weight: str) -> bool:
    if weight not in node.inputs:
        return True
    place = {"MatMul": 1, "Gather": 0}.get(node.operation)
    return place is not None and node.inputs.index(weight) == place and node.inputs.count(weight) == 1


def _rewritten(
    node: Node, quantised: set[str], cast: tuple[bytes, ...], whole: memoryview
) -> list[bytes | memoryview]:
    if node.outputs[0] in quantised or node.outputs[0].removesuffix(AS_FLOAT) in quantised:
        return []
    used = next((name for name in node.inputs if name in quantised), None)
    if used is None:
        return [whole]
    if node.operation == "MatMul":
        inputs = (node.inputs[0], used + QUANTISED, used + SCALE)
        return [Node("DynamicQuantizeMatMul", inputs, node.outputs, domain=DOMAIN).encoded()]
    rows, numbers, scales = (f"{used}.rows{ending}" for ending in (QUANTISED, AS_FLOAT, SCALE))
    return [
        Node("Gather", (used + QUANTISED, node.inputs[1]), (rows,), node.attributes).encoded(),
        Node("Cast", (rows,), (numbers,), cast).encoded(),
        Node("Gather", (used + SCALE, node.inputs[1]), (scales,), node.attributes).encoded(),
        Node("Mul", (numbers, scales), node.outputs).encoded(),
    ]


def _flat(initializer: Field) -> bytes:
    """The scales of a weight's columns without the first dimension, which is 1."""
    assert isinstance(initializer.value, memoryview)  # noqa: S101 - an initializer is a message
    fields = list(_fields(initializer.value))
    first = next(index for index, field in enumerate(fields) if field.number == TENSOR_DIMENSION)
    return _field(
        GRAPH_INITIALIZER, b"".join(field.whole for index, field in enumerate(fields) if index != first)
    )


def _node(field: Field) -> Node:
    assert isinstance(field.value, memoryview)  # noqa: S101 - a node is a message
    parts = list(_fields(field.value))
    return Node(
        next(each.text() for each in parts if each.number == NODE_TYPE),
        tuple(each.text() for each in parts if each.number == NODE_INPUT),
        tuple(each.text() for each in parts if each.number == NODE_OUTPUT),
        tuple(bytes(each.value) for each in parts if each.number == NODE_ATTRIBUTE),
    )


def _name(initializer: Field) -> str:
    assert isinstance(initializer.value, memoryview)  # noqa: S101 - an initializer is a message
    return next(each.text() for each in _fields(initializer.value) if each.number == TENSOR_NAME)


def _fields(message: memoryview) -> Iterator[Field]:
    at = 0
    while at < len(message):
        begin = at
        tag, at = _read_number(message, at)
        kind = tag & 7
        value: memoryview | int
        if kind == VARINT:
            value, at = _read_number(message, at)
        else:
            if kind == BYTES:
                length, at = _read_number(message, at)
            else:
                length = {FIXED64: 8, FIXED32: 4}[kind]
            value, at = message[at : at + length], at + length
        yield Field(tag >> 3, value, message[begin:at])


def _read_number(message: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no high bit
            return number, at


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - see above
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | BYTES) + _number(len(content)) + content
