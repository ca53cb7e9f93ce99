"""A model of several gigabytes on the emulated card: built without memory, moved piece by piece.

By default it has the shape of Granite-3.3-2B, 40 layers and 5 GB of random weights. The model is
made on the meta device; each weight gets its values on the host, goes to the card, and leaves the
host. Then a prompt is read and a few tokens are decoded, and the program says how long that took
here, what the card's timing model says it takes on hardware, and how much memory the process had.
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
    """Normal weights, and ones for the scales of norms; what has values already keeps them."""
    tick(tensor.nbytes)
    if not tensor.is_meta:
        return tensor
    if tensor.dim() < 2:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    return torch.empty(tensor.shape, dtype=torch.float32).normal_(std=0.02).to(tensor.dtype)


def load(subject, layers, progress):
    model = subject.build({"layers": layers})
    # Its frequencies are computed from the configuration, and nobody would compute them again.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=model.config)
    # Parameters that are tied count once, as they are moved once.
    total = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    task = progress.add_task("weights", total=total)
    torch.manual_seed(0)
    move_to_card(
        model, lambda each: random_weights(each, lambda size: progress.advance(task, size))
    )
    return model, total


def timed(call):
    """What it returns, seconds here, and seconds of device time."""
    before, start = torch.spyre.counters()["device_time_ps"], time.perf_counter()
    result = call()
    torch.spyre.synchronize()
    seconds = time.perf_counter() - start
    return result, seconds, (torch.spyre.counters()["device_time_ps"] - before) * 1e-12


def generate(model, prompt, new_tokens, progress):
    """Greedy decoding, each step timed."""
    task = progress.add_task("tokens", total=1 + new_tokens)
    words, cache = prompt.to("spyre"), None
    tokens, times = [], []

    def forward():
        output = model(input_ids=words, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return output.logits.argmax(-1), output.past_key_values

    for _ in range(1 + new_tokens):
        (words, cache), *spent = timed(forward)
        tokens.append(words.item())
        times.append(spent)
        progress.advance(task)
    return tokens, times


def peak_memory():
    """Of this process, in bytes. What `getrusage` tells begins with that of the parent."""
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
    subject = from_name(arguments.model)
    layers = arguments.layers or subject.repeated()[0].count
    with Progress(console=Console(stderr=True), transient=True) as progress, torch.no_grad():
        start = time.perf_counter()
        model, size = load(subject, layers, progress)
        loading = time.perf_counter() - start
        words = torch.randint(5, model.config.vocab_size, (1, arguments.prompt))
        tokens, times = generate(model, words, arguments.new_tokens, progress)

    (first, first_modelled), *others = times
    print(f"{arguments.model}: {layers} layers, {size / 1e9:.2f} GB, loaded in {loading:.1f} s")
    print(f"tokens: {tokens}")
    print(f"prefill of {arguments.prompt}: {first:.2f} s, {first_modelled * 1e3:.1f} ms modelled")
    for name, pick in (("first", others[0]), ("last", others[-1])):
        print(f"{name} decoded token: {pick[0]:.2f} s, {pick[1] * 1e3:.1f} ms modelled")
    seconds, modelled = (sum(column) / len(others) for column in zip(*others, strict=True))
    print(f"a decoded token: {seconds:.2f} s on average, {modelled * 1e3:.1f} ms modelled")
    print(f"ops on the CPU: {torch.spyre.counters()['fallbacks']}")
    print(f"peak memory: {peak_memory() / GIBIBYTE:.2f} GiB")


if __name__ == "__main__":
    main()
