# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces, read with forty lines of protobuf: nodes, edges and bytes are the
plan's."""
import csv
import json

import program


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def read_message(data):
    """Field number -> list of values: integers, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            assert tag & 7 == 2, tag
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def read_packed(values):
    numbers = []
    for data in values:
        at = 0
        while at < len(data):
            value, at = read_varint(data, at)
            numbers.append(value)
    return numbers


def read_trace(path):
    """The nodes: id, name, type, control and data dependencies, attributes."""
    data, at, messages = path.read_bytes(), 0, []
    while at < len(data):
        length, at = read_varint(data, at)
        messages.append(read_message(data[at:at + length]))
        at += length
    assert messages[0][1] == [b"0.0.4"]
    nodes = []
    for message in messages[1:]:
        attributes = {}
        for item in message.get(10, []):
            fields = read_message(item)
            name = fields.pop(1)[0].decode()
            attributes[name] = next(iter(fields.values()))[0] if fields else 0
        nodes.append({
            "id": message[1][0], "name": message.get(2, [b""])[0].decode(),
            "type": message.get(3, [0])[0], "control": read_packed(message.get(4, [])),
            "data": read_packed(message.get(5, [])), "microseconds": message.get(7, [0])[0],
            **attributes,
        })
    return nodes


def edges_of_plan(rows):
    """(row, row it waits for) of kernels, copies and collectives, by the rules of streams and
    events; and the ids of these rows."""
    last, pending, events, ids, edges = {}, {}, {}, [], set()
    for number, row in enumerate(rows, 1):
        stream = row["stream"]
        so_far = {last[stream]} if stream in last else set()
        if row["op"] == "record":
            events[row["event"]] = so_far | pending.get(stream, set())
        elif row["op"] == "wait":
            if row["event"].startswith("stream:"):
                other = row["event"][7:]
                more = ({last[other]} if other in last else set()) | pending.get(other, set())
            else:
                more = events[row["event"]]
            pending[stream] = pending.get(stream, set()) | more
        elif row["op"] in ("kernel", "copy", "collective"):
            edges |= {(number, other) for other in so_far | pending.pop(stream, set())}
            last[stream] = number
            ids.append(number)
    return ids, edges


class Chakra(program.InFolder):
    def test_nodes_edges_and_bytes_are_the_plans(self):
        for arguments in (("llama-3.2-1b", "--steps", 2),
                          ("llama-3.2-1b", "--steps", 1, "--api", "ddp", "--param-dtype", "f32"),
                          ("llama-3.2-1b", "--steps", 1, "--gpus", 16, "--strategy",
                           "hybrid_shard")):
            with self.subTest(arguments):
                self.predict(*arguments, "--chakra", "et", "--plan", "plan.csv", "--ranks", "0,5")
                with open(self.folder / "plan.csv", encoding="utf-8") as file:
                    rows = [r for r in csv.DictReader(file) if r["op"] not in ("meta", "group")]
                ids, edges = edges_of_plan(rows)
                groups = json.loads((self.folder / "et/comm_group.json").read_text())
                for rank in (0, 5):
                    nodes = read_trace(self.folder / f"et/fsdpsim.{rank}.et")
                    self.assertEqual([node["id"] for node in nodes], ids)
                    self.assertEqual(
                        {(n["id"], other) for n in nodes for other in n["data"]}, edges
                    )
                    self.assertEqual(sum(len(node["data"]) for node in nodes), len(edges))
                    for node in nodes:
                        self.check_node(node, rows[node["id"] - 1], groups, rank)

    def check_node(self, node, row, groups, rank):
        if row["op"] != "collective":
            if row["op"] == "copy":
                self.assertIn(node["type"], (2, 3))
                self.assertEqual(node["tensor_size"], int(row["bytes"]))
            else:
                self.assertEqual(node["type"], 4)
                self.assertEqual(node["num_ops"], int(row["flops"] or 0))
            return
        members = groups[node["pg_name"].decode()]
        kinds = {"all_reduce": 0, "all_gather": 2, "reduce_scatter": 7}
        share = len(members) if row["collective"] == "all_gather" else 1
        self.assertIn(rank, members)
        self.assertEqual(node["type"], 7)
        self.assertEqual(node["comm_type"], kinds[row["collective"]])
        self.assertEqual(node["comm_size"] * share, int(row["bytes"]))

    def test_all_ranks_unless_told_otherwise(self):
        self.predict("gpt2", "--steps", 1, "--chakra", "et")
        self.assertEqual(
            sorted(path.name for path in (self.folder / "et").iterdir()),
            ["comm_group.json", *(f"fsdpsim.{rank}.et" for rank in range(8))],
        )

    def test_copies_are_loads_and_stores(self):
        self.predict("llama-3.2-1b", "--steps", 1, "--offload", "cpu", "--chakra", "et", "--ranks", 0)
        types = {node["type"] for node in read_trace(self.folder / "et/fsdpsim.0.et")}
        self.assertEqual(types, {2, 3, 4, 7})

    def test_a_folder_is_not_standard_output(self):
        self.predict("gpt2", "--chakra", "-", code=2)


if __name__ == "__main__":
    program.main()
