"""First steps on the emulated Spyre card. `make demo` runs this.

There is no import of torch_spyre: with the package installed, PyTorch finds the device by itself.
"""

import warnings

import torch

# Ops run on the CPU for now, and each says so once. Section 7 shows how that looks; the values
# printed before it need none.
warnings.simplefilter("ignore")


def title(text):
    print(f"\n{text}\n" + "-" * len(text))


title("1. The device")
properties = torch.spyre.get_device_properties(0)
print(f"PyTorch's accelerator is {torch.accelerator.current_accelerator()!s}: {properties.name}")
print(f"with {properties.multi_processor_count} cores", end=" and ")
print(f"{properties.total_memory / 2**30:.0f} GiB of usable memory.")

title("2. To the card and back")
x = torch.arange(512, dtype=torch.float16).reshape(4, 128)
y = x.to("spyre")
print(f"x is on {x.device}; y = x.to('spyre') is on {y.device}, its shape still {list(y.shape)}.")
print("y.cpu() equals x:", torch.equal(y.cpu(), x))
print("Views work on the card; y[1, 64:67] is", y[1, 64:67])

title("3. How y lies in device memory")
layout = y.device_tensor_layout()
print(layout)
print("Memory moves in sticks of 128 bytes: 64 elements of 16 bits. A row of 128 is two sticks.")
print("The card keeps all first sticks, then all second sticks: 2 x 4 rows x 64 elements.")
print("So y[1, 70] is in stick 70 // 64 = 1, row 1, at position 70 % 64 = 6.")
ragged = torch.empty(4, 100, dtype=torch.float16, device="spyre").device_tensor_layout()
print(f"Rows of 100 take two sticks as well, the second one padded: {ragged.device_size}")

title("4. Numbers are the card's, not the host's")
value = torch.tensor(1 + 2**-10, dtype=torch.float16)
print(f"float16 {value.item()} comes back from the card as {value.to('spyre').cpu().item()}:")
print("its 16-bit format has 9 fraction bits, where float16 has 10, and more range instead.")

title("5. Memory")
before = torch.spyre.memory.memory_allocated()
block = torch.empty(1024, 1024, dtype=torch.float16, device="spyre")
print(f"1024 x 1024 float16 took {torch.spyre.memory.memory_allocated() - before} bytes;", end=" ")
del block
print(f"after `del`, {torch.spyre.memory.memory_allocated() - before}.")
free, total = torch.spyre.memory.mem_get_info()
print(f"{free / 2**30:.2f} of {total / 2**30:.0f} GiB are free.")

title("6. Streams and events")
start, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
pinned = torch.ones(4096, 1024, dtype=torch.float16).pin_memory()
stream = torch.spyre.Stream()
with torch.spyre.stream(stream):
    start.record()
    pinned.to("spyre", non_blocking=True)  # returns at once; the copy runs on the stream
    end.record()
end.synchronize()
print(f"An 8 MiB copy on stream {stream.stream_id} took {start.elapsed_time(end):.3f} ms", end=" ")
print("of device time:\nwhat the host link would need, not what this machine took.")

title("7. Ops the card has no kernel for run on the CPU, and say so")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    z = torch.special.bessel_j0(y.float())
print(f"bessel_j0 of y is on {z.device}. {caught[0].category.__name__}: {caught[0].message}")
print("TORCH_SPYRE_FALLBACK=error makes this an error, =silent only counts it.")

title("8. Counters")
for name, count in torch.spyre.counters().items():
    print(f"{name:>18} {count}")
