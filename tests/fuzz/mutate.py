# SPDX-License-Identifier: Apache-2.0
"""Wrong files made of right ones, the same for the same seed: text mutated as bytes, JSON as a tree."""
import copy
import json

NUMBERS = [0, -1, 1, 2, 3, 7, 0.5, 1e-300, 1e300, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**18, -(10**18)]
TEXTS = ["", " ", "a", "0", "-1", "%s%n", "\u00e9\u4e2d", "x" * 5000, "80GiB", "1e400GB/s", "\n", "\u0000", "../.."]
WORDS = [b",", b"\n", b'"', b"-1", b"0", b"99999999999999999999", b"{", b"[", b"}", b"]", b"\x00", b"\xff\xfe"]


def list_places(value, places, path=()):
    """Every path of a JSON tree, the root first."""
    places.append(path)
    if isinstance(value, dict):
        for key in value:
            list_places(value[key], places, path + (key,))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            list_places(item, places, path + (index,))


def mutate_tree(random, tree):
    """One place of the tree replaced, renamed, doubled or left out."""
    tree = copy.deepcopy(tree)
    places = []
    list_places(tree, places)
    path = random.choice(places[1:])
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    kind = random.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(key) + random.choice("sx_")] = parent.pop(key)
    elif kind == 2:
        parent[key] = random.choice([None, True, False, [], {}, [[]], [parent[key]], {"a": 1}])
    elif kind == 3:
        parent[key] = random.choice(TEXTS)
    elif kind == 4 and isinstance(parent[key], (int, float)):
        parent[key] = parent[key] * random.choice([2, 3, 0.5, -1, 1000]) + random.choice([0, 1, -1])
    elif kind == 5:
        other = random.choice(places[1:])
        value = tree
        for step in other:
            if isinstance(value, (dict, list)) and (step in value if isinstance(value, dict) else step < len(value)):
                value = value[step]
        parent[key] = copy.deepcopy(value)
    else:
        parent[key] = random.choice(NUMBERS)
    return tree


def mutate_bytes(random, data):
    """A piece of the text cut, doubled, overwritten or moved."""
    start = random.randrange(len(data))
    end = min(len(data), start + random.choice([1, 2, 8, 64]))
    kind = random.randrange(5)
    if kind == 0:
        return data[:start] + data[end:]
    if kind == 1:
        return data[:end] + data[start:end] + data[end:]
    if kind == 2:
        return data[:start] + random.choice(WORDS) + data[end:]
    if kind == 3:
        return data[:start]
    other = random.randrange(len(data))
    return data[:other] + data[start:end] + data[other:]


def mutate_rows(random, data):
    """One cell of a CSV file replaced by another cell or by a word, or a row left out, doubled, moved."""
    rows = [line.split(b",") for line in data.split(b"\n") if line]
    row = random.randrange(len(rows))
    kind = random.randrange(6)
    if kind == 0:
        del rows[row]
    elif kind == 1:
        rows.insert(random.randrange(len(rows)), rows[row])
    elif kind == 2:
        rows.insert(random.randrange(len(rows)), rows.pop(row))
    else:
        cell = random.randrange(len(rows[row]))
        rows[row] = list(rows[row])
        other = random.choice(rows)
        taken = other[min(cell, len(other) - 1)]
        rows[row][cell] = random.choice([taken, taken, *WORDS[2:6], b""])
    return b"\n".join(b",".join(cells) for cells in rows) + b"\n"


def mutate(random, name, data):
    """A variant of file NAME, which held DATA."""
    for _ in range(random.choice([1, 1, 2, 4])):
        if random.randrange(4) == 0 or not data:
            return mutate_bytes(random, data) if data else data
        if name.endswith(".csv"):
            data = mutate_rows(random, data)
        else:
            tree = json.loads(data)
            if len(tree) == 0:
                return data
            data = json.dumps(mutate_tree(random, tree)).encode()
    return data
