"""Measure tokens per second of small models on the card, eager and compiled, and on the CPU.

Every figure is the best of several rounds in one run, alternating the variants. `x CPU` is the time
relative to the same model on the CPU in float32. `GB/s` is the traffic of the emulated card's
memory per second of host time. `modelled` is the estimate of the card's timing model for the
launches, without copies over the host link, queueing and fallback ops, which the last column
counts.
"""

import argparse
import copy
import time
import warnings
from dataclasses import dataclass, field

import torch
import transformers
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


def sized_config(config, layers, hidden, intermediate, heads, key_heads):
    return config(
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=8192,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )


SHAPES = {
    "llama 4 x 1024": sized_config(transformers.LlamaConfig, 4, 1024, 2816, 16, 4),
    "granite 2 x 512": sized_config(transformers.GraniteConfig, 2, 512, 2048, 8, 2),
    "granite 4 x 2048": sized_config(transformers.GraniteConfig, 4, 2048, 8192, 32, 8),
    "qwen2 8 x 1024": sized_config(transformers.Qwen2Config, 8, 1024, 4096, 16, 4),
}
QUICK = ("llama 4 x 1024", "granite 2 x 512")
COUNTERS = ("device_time_ps", "ddr_read_bytes", "ddr_write_bytes", "fallbacks")


@dataclass
class Measurement:
    """The best round of one step of one variant."""

    tokens: int
    seconds: float = float("inf")
    counters: dict = field(default_factory=dict)

    def update(self, seconds, counters):
        if seconds < self.seconds:
            self.seconds, self.counters = seconds, counters


class Variant:
    """A model on one device, eager or compiled, with the matching kind of KV cache."""

    def __init__(self, model, device, *, compiled=False):
        self.device, self.config = device, model.config
        self.has_static_cache = compiled
        # A static cache has its full size from the start, so one program serves all positions.
        self.call = torch.compile(model, dynamic=False) if compiled else model

    def cache(self, length):
        if self.has_static_cache:
            return transformers.StaticCache(config=self.config, max_cache_len=length)
        return transformers.DynamicCache(config=self.config)

    def round(self, prompt, new_tokens):
        """Return seconds and counters of a prefill, and of decoding the new tokens."""
        cache = self.cache(-(-(prompt.shape[1] + new_tokens) // 64) * 64)
        tokens = prompt.to(self.device)

        def forward(ids):
            output = self.call(
                input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            return output.logits.argmax(-1)

        def decode():
            tokens = first
            for _ in range(new_tokens):
                tokens = forward(tokens)

        first, *prefill = timed(lambda: forward(tokens))
        _, *decoded = timed(decode)
        return prefill, decoded


def timed(call):
    torch.spyre.synchronize()
    before, start = torch.spyre.counters(), time.perf_counter()
    result = call()
    torch.spyre.synchronize()
    seconds, after = time.perf_counter() - start, torch.spyre.counters()
    return result, seconds, {name: after[name] - before[name] for name in COUNTERS}


def measure(config, arguments, tick):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()
        on_card = copy.deepcopy(model).to("spyre")
        variants = {
            "CPU": Variant(model.float(), "cpu"),
            "eager": Variant(on_card, "spyre"),
            "compiled": Variant(on_card, "spyre", compiled=True),
        }
        prompt = torch.randint(5, config.vocab_size, (1, arguments.prompt))
        best = {
            name: (Measurement(arguments.prompt), Measurement(arguments.new_tokens))
            for name in variants
        }
        torch._dynamo.reset()
        with torch.no_grad():
            for round in range(arguments.rounds + 1):
                for name, variant in variants.items():
                    results = variant.round(prompt, arguments.new_tokens)
                    for step, result in zip(best[name], results, strict=True):
                        if round:  # the first round compiles
                            step.update(*result)
                    tick()
    return best


# Headings wider than their figures are wrapped, so that tables fit in 80 columns.
FIGURES = ("tokens/s", "x CPU", "GB/s", "modelled\ntokens/s", "ops on\nthe CPU")


def table_of(shape, best):
    table = Table("step", "mode", title=shape, title_justify="left")
    for figure in FIGURES:
        table.add_column(figure, justify="right")
    for position, step in enumerate(("prefill", "decode")):
        host = best["CPU"][position]
        for name, steps in best.items():
            measurement = steps[position]
            row = [step, name, f"{measurement.tokens / measurement.seconds:.1f}"]
            row.append(f"{measurement.seconds / host.seconds:.2f}")
            if name != "CPU":
                moved = (
                    measurement.counters["ddr_read_bytes"] + measurement.counters["ddr_write_bytes"]
                )
                row.append(f"{moved / measurement.seconds / 1e9:.2f}")
                row.append(
                    f"{measurement.tokens / measurement.counters['device_time_ps'] * 1e12:,.0f}"
                )
                row.append(str(measurement.counters["fallbacks"]))
            table.add_row(*row)
        table.add_section()
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--new-tokens", type=int, default=8, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; the best counts")
    parser.add_argument("--only", choices=SHAPES, help="the only model to measure")
    parser.add_argument("--full", action="store_true", help="all models, not just the quick ones")
    arguments = parser.parse_args()

    shapes = [arguments.only] if arguments.only else list(SHAPES if arguments.full else QUICK)
    tables = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(shapes) * 3 * (arguments.rounds + 1))
        for shape in shapes:
            progress.update(task, description=shape)
            best = measure(SHAPES[shape], arguments, lambda: progress.advance(task))
            tables.append(table_of(shape, best))
    Console().print(*tables, f"{torch.get_num_threads()} host threads", sep="\n")


if __name__ == "__main__":
    main()
