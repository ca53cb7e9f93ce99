"""Builds trace files event by event, for tests of what reads them. Times are microseconds."""

import json


class TraceBuilder:
    """A trace of one process with any number of cards and threads."""

    def __init__(self, origin=0.0, **header):
        self.origin = origin
        self.header = {"schemaVersion": 1} | header
        self.events = []

    def add(self, category, name, begin, duration, pid, tid, **arguments):
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        event |= {"ts": self.origin + begin, "dur": duration, "args": arguments}
        self.events.append(event)
        return event

    def host(self, category, name, begin, duration, thread=1, **arguments):
        return self.add(category, name, begin, duration, 1000, thread, **arguments)

    def op(self, name, begin, duration, **arguments):
        return self.host("cpu_op", name, begin, duration, **arguments)

    def launch(self, begin, duration, correlation, **arguments):
        name = "aiuLaunchControlBlocks"
        arguments |= {"correlation": correlation}
        return self.host("privateuse1_runtime", name, begin, duration, **arguments)

    def kernel(self, name, begin, duration, card=0, stream=0, category="kernel", **arguments):
        arguments = {"device": card, "stream": stream} | arguments
        return self.add(category, name, begin, duration, card, stream, **arguments)

    def content(self):
        return self.header | {"traceEvents": self.events}

    def write(self, path):
        path.write_text(json.dumps(self.content()))
        return path


def layer_trace(**header):
    """Return a trace of a scope with two ops: three kernels, a copy, gaps of both causes."""
    trace = TraceBuilder(origin=5e9, **header)
    trace.host("user_annotation", "forward", 0, 100)
    trace.host("python_function", "nn.Module: Linear_0", 1, 40)
    trace.op("aten::linear", 2, 38, **{"External id": 1})
    trace.op("aten::addmm", 4, 30, **{"External id": 2})
    trace.launch(10, 2, 1)
    trace.launch(14, 2, 2)
    trace.op("aten::relu", 50, 20, **{"External id": 3})
    trace.launch(60, 2, 3)
    trace.host("privateuse1_runtime", "aiuDataTransferDtoH", 101, 50, correlation=4)
    # Idle from 30 to 35 with the second kernel pending, and from 45 to 65 with nothing to do.
    trace.kernel("sdsc_mm", 10, 20, correlation=1, pt_util=0.5, ddr_util=0.25, bytes=1000)
    trace.kernel("sdsc_mm", 35, 10, correlation=2, pt_util=0.2, ddr_util=0.4, bytes=500)
    trace.kernel("sdsc_relu", 65, 15, correlation=3, pt_util=0.0, bound_by="ddr")
    trace.kernel("Memcpy (DtoH)", 105, 20, category="gpu_memcpy", correlation=4, bytes=40000)
    return trace
