# SPDX-License-Identifier: Apache-2.0
"""Our Chakra traces through MLCommons' own schema and Google's protobuf (Debian's protobuf-compiler
and python3-protobuf): no unknown field is left over, and what is read is what was meant."""
import subprocess

import program

READER = """
import sys
sys.path.insert(0, sys.argv[1])
import et_def_pb2
from google.protobuf.internal.decoder import _DecodeVarint32
data, at, count, volume = open(sys.argv[2], "rb").read(), 0, 0, 0
while at < len(data):
    length, at = _DecodeVarint32(data, at)
    message = et_def_pb2.Node() if count else et_def_pb2.GlobalMetadata()
    message.ParseFromString(data[at:at + length])
    before = message.ByteSize()
    message.DiscardUnknownFields()
    assert message.ByteSize() == before == length
    if count and message.type == et_def_pb2.COMM_COLL_NODE:
        values = {a.name: getattr(a, a.WhichOneof("value")) for a in message.attr}
        volume += values["comm_size"] * (8 if values["comm_type"] == et_def_pb2.ALL_GATHER else 1)
    at += length
    count += 1
print(count - 1, volume)
"""


class Schema(program.InFolder):
    def test_the_published_schema_reads_it(self):
        self.predict("gpt2", "--steps", 2, "--chakra", "et", "--ranks", 0, "--plan", "plan.csv")
        folder = program.ROOT / "tests/cli/chakra"
        subprocess.run(["protoc", f"--proto_path={folder}", f"--python_out={self.folder}",
                        folder / "et_def.proto"], check=True)
        done = subprocess.run(
            ["/usr/bin/python3", "-c", READER, self.folder, self.folder / "et/fsdpsim.0.et"],
            check=True, capture_output=True, text=True,
        )
        lines = (self.folder / "plan.csv").read_text().splitlines()[1:]
        works = [line.split(",")[0:2] for line in lines]
        own = sum(op in ("kernel", "copy", "collective") and ranks != "7" for ranks, op in works)
        count, volume = map(int, done.stdout.split())
        self.assertEqual(count, own)
        self.assertGreater(volume, 0)


if __name__ == "__main__":
    program.main()
