"""Files of processes with cards, written by tests as the C++ core writes them."""

import fcntl
import json
import os
import struct
from contextlib import contextmanager

POWER = {
    "board": 75,
    "idle": 15,
    "pt": 32,
    "sfp": 10,
    "ddr": 8,
    "lx": 7,
    "ring": 3,
    "ambient_celsius": 25,
    "celsius_per_watt": 0.5,
}
DESCRIPTION = {"name": "a card", "clock_ghz": 1.5, "power": POWER}
AMOUNTS = ("cores_ps", "link_ps", "pt_ps", "sfp_ps", "ddr_ps", "lx_ps", "ring_ps")
AMOUNTS += ("ddr_read_bytes", "ddr_write_bytes", "to_device_bytes", "to_host_bytes", "launches")


def own_identity():
    """Return the namespace, number and start time of this process, from /proc."""
    with open("/proc/self/stat") as file:
        start = int(file.read().rpartition(")")[2].split()[19])
    return os.stat("/proc/self/ns/pid").st_ino, os.getpid(), start


def file_name(identity):
    return "-".join(map(str, identity)) + ".smi"


def header(identity=None, *, magic=b"SPYRESMI", version=1, num_cards=1, description=DESCRIPTION):
    namespace, pid, start = identity or own_identity()
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    return struct.pack("=8sIIQQQ984s", magic, version, num_cards, pid, start, namespace, text)


def card(
    *,
    index=0,
    sequence=0,
    total=1 << 30,
    memory=(0, 0, 0),
    end_ps=0,
    executing=0,
    executed_ns=0,
    running=(),
    finished=(),
):
    """Return the bytes of the counters of a card; amounts are given by name."""
    amounts = [dict(running).get(name, 0) for name in AMOUNTS]
    amounts += [dict(finished).get(name, 0) for name in AMOUNTS]
    counters = (sequence, index, total, *memory, end_ps, executing, executed_ns % 2**64)
    return struct.pack("=3Q3q3Q24Q56x", *counters, *amounts)


@contextmanager
def locked(path):
    """Hold the lock that the process of a file holds."""
    with open(path, "r+b") as file:
        lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        yield


@contextmanager
def file_of_this_process(folder, content):
    """Write a file as if this process had opened cards, and hold its lock."""
    path = folder / file_name(own_identity())
    path.write_bytes(content)
    with locked(path):
        yield path
    path.unlink(missing_ok=True)
