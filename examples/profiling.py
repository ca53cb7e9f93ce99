"""Profiles a block of a language model, eager and compiled, and writes a trace of each.

Run it with: python examples/profiling.py
Then look at them: spyre trace compiled.json, spyre trace eager.json --compare compiled.json
"""

import torch
from torch import nn
from torch.profiler import profile, record_function, schedule


class Block(nn.Module):
    """A layer of a decoder without its mask: attention, then a gated MLP."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * width, width, bias=False)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).view(len(x), self.heads, -1).transpose(0, 1)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(1, 2) * q.shape[-1] ** -0.5, -1)
        return self.output((weights @ v).transpose(0, 1).reshape(x.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        y = self.mlp_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def write_trace(path: str, function: nn.Module, prompt: torch.Tensor) -> None:
    """Profile two steps after one of warm-up, each with its copies to and from the card."""

    def finish(prof: profile) -> None:
        prof.export_chrome_trace(path)
        rows = {row.key: row for row in prof.key_averages() if row.cpu_time_total > 0}
        time = rows["block"].device_time_total / rows["block"].count
        print(f"{path}: {time:.1f} us of device time for a block")

    steps = schedule(wait=0, warmup=1, active=2)
    with profile(schedule=steps, on_trace_ready=finish) as prof:
        for _ in range(3):
            with record_function("to the card"):
                x = prompt.to("spyre")
            with record_function("block"):
                y = function(x)
            with record_function("back"):
                y.cpu()
            prof.step()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    block = Block().half().to("spyre")
    prompt = torch.randn(256, 512, dtype=torch.float16)
    compiled = torch.compile(block)
    for function in (block, compiled):
        function(prompt.to("spyre"))  # compiles kernels, which no trace should show
    write_trace("eager.json", block, prompt)
    write_trace("compiled.json", compiled, prompt)


if __name__ == "__main__":
    main()
