"""Snapshots of device memory for tests: simulated histories of allocations."""


def frames(*lines):
    """Return frames of a user's file, and one of PyTorch that called the allocator."""
    inner = {"filename": "/env/lib/site-packages/torch/nn/linear.py", "line": 1, "name": "forward"}
    return [inner, *({"filename": "/home/me/train.py", "line": n, "name": "step"} for n in lines)]


class Simulator:
    """A card whose allocations and releases are recorded in the form of a snapshot."""

    def __init__(self):
        self.live = {}
        self.events = []
        self.live_bytes = [0]

    def _add(self, action, address, size, stack):
        time = len(self.events)
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": 1000 * time,
                "device_time_ps": 10**6 * time,
                "frames": stack,
            }
        )
        self.live_bytes.append(sum(size for size, _ in self.live.values()))

    def allocate(self, address, size, line=1):
        stack = frames(line)
        self.live[address] = (size, stack)
        self._add("alloc", address, size, stack)

    def free(self, address):
        size, stack = self.live[address]
        self._add("free_requested", address, size, stack)
        del self.live[address]
        self._add("free_completed", address, size, stack)

    def fail(self, size):
        self._add("oom", 0, size, frames(99))

    def snapshot(self, dropped=0):
        """Return the snapshot, without the first events if the history was shorter."""
        segments = [
            {
                "device": 0,
                "address": address,
                "total_size": size,
                "stream": 0,
                "blocks": [
                    {
                        "address": address,
                        "size": size,
                        "requested_size": size,
                        "state": "active_allocated",
                        "frames": stack,
                    }
                ],
            }
            for address, (size, stack) in self.live.items()
        ]
        return {"segments": segments, "device_traces": [self.events[dropped:]]}


def training_step():
    """Return a simulator after a step that keeps 3 MiB, and uses 7 MiB at its peak."""
    card = Simulator()
    card.allocate(0, 1 << 20, line=10)
    card.allocate(1 << 20, 2 << 20, line=11)
    card.allocate(3 << 20, 4 << 20, line=12)
    card.fail(1 << 40)
    card.free(3 << 20)
    return card
