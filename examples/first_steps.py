"""A tour of Torch-Spyre on the emulated card. `make demo` runs this.

PyTorch loads the device on `import torch`; torch_spyre is imported here only for the KTIR kernel.
"""

import copy
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from torch_spyre import ktir

KTIR_EXAMPLES = Path(__file__).parent / "ktir"
SENTENCE = "Tiles flow from memory to the scratchpads and back."
PROMPT = SENTENCE[:16]

console = Console(width=80, highlight=False)


def title(number, text):
    console.print()
    console.rule(f"[bold cyan]{number}. {text}", align="left", style="cyan")


def say(text):
    console.print(text)


def code(text):
    """Print lines of code, which may contain square brackets."""
    console.print(f"[green]  {escape(text)}")


def measured(call):
    """Call a function; return its result, the number of launches and the device time in us."""
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    result = call()
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    launches = after["launches"] - before["launches"]
    return result, launches, (after["device_time_ps"] - before["device_time_ps"]) / 1e6


def show_tensor_and_layout():
    properties = torch.spyre.get_device_properties(0)
    title(1, "A tensor on the card, and its layout")
    say(
        f"PyTorch's accelerator is {torch.accelerator.current_accelerator()!s}: "
        f"{properties.multi_processor_count} cores and "
        f"{properties.total_memory / 2**30:.0f} GiB of usable memory, emulated."
    )
    x = torch.arange(512, dtype=torch.float16).reshape(4, 128)
    y = x.to("spyre")
    layout = y.device_tensor_layout()
    code('y = torch.arange(512, dtype=torch.float16).reshape(4, 128).to("spyre")')
    sizes, strides = escape(str(layout.device_size)), escape(str(layout.stride_map))
    say(f"  device_size {sizes}, stride_map {strides}, format {layout.device_dtype.name}")
    say("Memory moves in sticks of 128 bytes, here 64 elements. The card stores the")
    say("first stick of every row, then the second stick of every row:")
    sticks = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("", "row 0", "row 1", "row 2", "row 3"):
        sticks.add_column(heading, justify="right")
    for stick in range(layout.device_size[0]):
        ranges = [x[row, 64 * stick : 64 * (stick + 1)] for row in range(4)]
        cells = [f"{int(part[0])}..{int(part[-1])}" for part in ranges]
        sticks.add_row(f"stick {stick}", *cells)
    console.print(sticks)
    say(f"y.cpu() equals the original: {torch.equal(y.cpu(), x)}")


def show_eager_op():
    title(2, "An eager op")
    x = torch.randn(512, 1024, dtype=torch.float16).to("spyre")
    code("y = torch.softmax(x, dim=-1)        # x: 512 x 1024, float16, on the card")
    torch.softmax(x, dim=-1)  # compiles the kernel
    y, launches, microseconds = measured(lambda: torch.softmax(x, dim=-1))
    difference = (y.cpu().double() - torch.softmax(x.cpu().double(), -1)).abs().max().item()
    say(f"launches: {launches}, device time: {microseconds:.1f} us on {y.device}")
    say(f"largest difference from float64 on the CPU: {difference:.1e}")
    say("[dim]Device time is what the timing model gives for the hardware, not the time here.")


def show_compiled_function():
    title(3, "A compiled function")
    x, w = (torch.randn(256, 256, dtype=torch.float16).to("spyre") for _ in range(2))

    def layer(x, w):
        return F.rms_norm(F.gelu(x @ w) + x, (256,))

    code("def layer(x, w): return F.rms_norm(F.gelu(x @ w) + x, (256,))")
    start = time.perf_counter()
    compiled = torch.compile(layer)
    compiled(x, w)
    layer(x, w)
    seconds = time.perf_counter() - start
    results = []
    for name, function in (("eager", layer), ("torch.compile", compiled)):
        y, launches, microseconds = measured(lambda function=function: function(x, w))
        results.append(y.cpu().float())
        say(f"{name:>14}  launches: {launches}, device time: {microseconds:6.1f} us")
    difference = (results[0] - results[1]).abs().max().item()
    say(f"largest difference between the two: {difference:.1e}")
    say(f"Compiling both, and running them once, took {seconds:.1f} s here.")
    say("[dim]Intermediate results stay in the scratchpads of the cores.")


def trained_model(progress):
    """Return a tiny Llama that has learned one sentence, character by character."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ids = to_ids(SENTENCE)
    for _ in progress.track(range(40), description="the CPU learns a sentence"):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def to_ids(text):
    return torch.tensor([list(text.encode("ascii"))])


def generate(model, prompt, new_tokens):
    """Return the text that the model generates greedily, on the device of the model."""
    ids = to_ids(prompt).to(model.device)
    sequence = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new_tokens,
        do_sample=False,
        cache_implementation="static",
    )
    return bytes(sequence[0, ids.shape[1] :].tolist()).decode("ascii", "replace")


def show_language_model():
    title(4, "A language model")
    new_tokens = len(SENTENCE) - len(PROMPT)
    with Progress(console=Console(stderr=True), transient=True) as progress, torch.no_grad():
        with torch.enable_grad():
            model = trained_model(progress)
        parameters = sum(p.numel() for p in model.parameters())
        say(f"A stock LlamaForCausalLM of transformers, {parameters:,} parameters, one token a")
        say("character, trained on the CPU for a few seconds to know one sentence by heart.")
        code('on_card = model.half().to("spyre"); on_card.generate(...)')
        task = progress.add_task("the card generates", total=None)
        on_card = copy.deepcopy(model).half().to("spyre")
        expected = generate(model, PROMPT, new_tokens)
        start = time.perf_counter()
        text, launches, microseconds = measured(lambda: generate(on_card, PROMPT, new_tokens))
        seconds = time.perf_counter() - start
        progress.remove_task(task)
    say(f"  CPU, float32   [dim]{escape(PROMPT)}[/dim]{escape(expected)}")
    say(f"  card, float16  [dim]{escape(PROMPT)}[/dim]{escape(text)}")
    say(f"same tokens: {text == expected}; compiled and generated here in {seconds:.1f} s")
    per_token = microseconds / new_tokens
    say(f"{new_tokens} tokens, launches: {launches}, device time per token: {per_token:.0f} us")


def show_ktir_kernel():
    title(5, "A kernel in KTIR")
    module = ktir.load(KTIR_EXAMPLES / "softmax.mlir")
    x = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float16)
    code('module = ktir.load("examples/ktir/softmax.mlir")')
    code('results = module.run("softmax", x=x, y=numpy.zeros_like(x))')
    results = module.run("softmax", x=x, y=np.zeros_like(x))
    timing = module.estimate("softmax")
    sums = results["y"].astype(np.float64).sum(axis=1)
    say(f"All {len(sums)} rows sum to 1 within {np.abs(sums - 1).max():.1e}.")
    say(f"device time: {timing.time_us:.1f} us, bound by {timing.bound_by}")
    say("[dim]Without Python: spyre ktir run examples/ktir/softmax.mlir --random")


def show_where_to_look_next():
    title(6, "Where to look next")
    table = Table(box=None, show_header=False, padding=(0, 1))
    for place, purpose in (
        ("docs/getting-started.md", "the device in your own programs"),
        ("docs/contract.md", "what is exact, modelled, assumed and missing"),
        ("docs/compiler.md", "how PyTorch's graphs become kernels"),
        ("TORCH_SPYRE_DUMP=folder", "writes every stage of each compiled kernel"),
        ("spyre enable llama-3.1-8b", "which ops of a model are native, and how fast it is"),
        ("spyre opinfo softmax", "an op on PyTorch's own samples, compared with the CPU"),
        ("examples/ktir/run_all.py", "attention, norms, gathers and more as kernels"),
        ("benchmarks/models.py", "tokens per second of small models"),
    ):
        table.add_row(f"[green]{place}", purpose)
    console.print(table)


def main():
    # Warnings of PyTorch and transformers would clutter the output of the tour.
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    show_tensor_and_layout()
    show_eager_op()
    show_compiled_function()
    show_language_model()
    show_ktir_kernel()
    show_where_to_look_next()


if __name__ == "__main__":
    main()
