"""Creates tensors on the card and prints their device, layout and size.

Run it with: python examples/tensor_allocate.py
"""

import torch

x = torch.tensor([1, 2], dtype=torch.float16, device="spyre")
print(x)
print("device:", x.device)
print("layout:", x.device_tensor_layout())
print("bytes: ", x.untyped_storage().nbytes(), "(one stick, the unit of allocation)")

print("\nThe same 1000 elements in each dtype the card holds:")
print(f"{'dtype':<24}{'format on the card':<32}{'device_size':<16}bytes")
torch.spyre.set_downcast_warning(False)  # int64 is stored in 32 bits; docs/numbers.md
for dtype in (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2fnuz,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
):
    tensor = torch.empty(1000, dtype=dtype, device="spyre")
    layout = tensor.device_tensor_layout()
    format_name, size = str(layout.device_dtype), str(list(layout.device_size))
    print(f"{dtype!s:<24}{format_name:<32}{size:<16}{tensor.untyped_storage().nbytes()}")

print("\nAn unsupported dtype is rejected:")
try:
    torch.empty(1000, dtype=torch.float64, device="spyre")
except RuntimeError as error:
    print(str(error).splitlines()[0])
