"""Run a model of several gigabytes on the emulated card without holding it in host memory.

By default it has the shape of Granite-3.3-2B: 40 layers and 5 GB of random weights. The model is
built on the meta device. Weights are initialized on the host and copied to the card one by one, so
that the host never holds more than one. Then the program processes a prompt, decodes a few tokens,
and prints the time on this host, the modelled device time, and the peak memory of the process.
"""

import argparse
import re
import time
import warnings
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from torch_spyre.enablement.transformers_models import from_name, published
from torch_spyre.enablement.weights import move_to_card

GIBIBYTE = 2**30


def random_weights(tensor, tick):
    """Return normally distributed weights, or ones for norms; a tensor with values is returned."""
    tick(tensor.nbytes)
    if not tensor.is_meta:
        return tensor
    if tensor.dim() < 2:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    return torch.empty(tensor.shape, dtype=torch.float32).normal_(std=0.02).to(tensor.dtype)


def load(source, layers, progress):
    """Return the model with random weights on the card, and the bytes of its weights."""
    model = source.build({"layers": layers})
    # The constructor computes the frequencies, whose values are lost on the meta device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=model.config)
    # Tied parameters count once, as they are moved once.
    total = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    task = progress.add_task("weights", total=total)
    torch.manual_seed(0)
    move_to_card(
        model, lambda tensor: random_weights(tensor, lambda size: progress.advance(task, size))
    )
    return model, total


def timed(call):
    """Return the result of a call, the seconds on this host, and the seconds of device time."""
    before, start = torch.spyre.counters()["device_time_ps"], time.perf_counter()
    result = call()
    torch.spyre.synchronize()
    seconds = time.perf_counter() - start
    return result, seconds, (torch.spyre.counters()["device_time_ps"] - before) * 1e-12


def generate(model, prompt, new_tokens, progress):
    """Decode greedily; return the tokens, and the times of the prefill and of each token."""
    task = progress.add_task("tokens", total=1 + new_tokens)
    ids, cache = prompt.to("spyre"), None
    tokens, times = [], []

    def forward():
        output = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return output.logits.argmax(-1), output.past_key_values

    for _ in range(1 + new_tokens):
        (ids, cache), *seconds = timed(forward)
        tokens.append(ids.item())
        times.append(seconds)
        progress.advance(task)
    return tokens, times


def peak_memory():
    """Return the peak memory of this process in bytes; `getrusage` would include the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=published(), default="granite-3.3-2b")
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--new-tokens", type=int, default=8, help="tokens to decode")
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")
    source = from_name(arguments.model)
    layers = arguments.layers or source.repeated()[0].count
    with Progress(console=Console(stderr=True), transient=True) as progress, torch.no_grad():
        start = time.perf_counter()
        model, size = load(source, layers, progress)
        loading = time.perf_counter() - start
        prompt = torch.randint(5, model.config.vocab_size, (1, arguments.prompt))
        tokens, times = generate(model, prompt, arguments.new_tokens, progress)

    (prefill, prefill_modelled), *decoded = times
    print(f"{arguments.model}: {layers} layers, {size / 1e9:.2f} GB, loaded in {loading:.1f} s")
    print(f"tokens: {tokens}")
    print(
        f"prefill of {arguments.prompt}: {prefill:.2f} s, {prefill_modelled * 1e3:.1f} ms modelled"
    )
    for name, (seconds, modelled) in (("first", decoded[0]), ("last", decoded[-1])):
        print(f"{name} decoded token: {seconds:.2f} s, {modelled * 1e3:.1f} ms modelled")
    seconds, modelled = (sum(column) / len(decoded) for column in zip(*decoded, strict=True))
    print(f"a decoded token: {seconds:.2f} s on average, {modelled * 1e3:.1f} ms modelled")
    print(f"ops on the CPU: {torch.spyre.counters()['fallbacks']}")
    print(f"peak memory: {peak_memory() / GIBIBYTE:.2f} GiB")


if __name__ == "__main__":
    main()
