"""Runs a softmax on the card and compares it with the CPU.

Run it with: python examples/softmax.py
"""

import torch

torch.manual_seed(0)
x = torch.randn(512, 1024, dtype=torch.float16)
on_card = x.to("spyre")
result = torch.softmax(on_card, dim=-1)

# The copy to the card has already rounded x to the card's 16-bit format, so the reference starts
# from the values that the card holds, and is computed in float32.
expected = torch.softmax(on_card.cpu().float(), dim=-1)
error = (result.cpu().float() - expected).abs()

print(f"softmax of {list(x.shape)} {x.dtype} on {result.device}")
print("first row, on the card:", result[0, :4].cpu())
print("first row, on the CPU: ", expected[0, :4])
print(f"largest difference: {error.max().item():.2e}")
print(f"rows sum to 1 within {(result.cpu().float().sum(-1) - 1).abs().max().item():.1e}")

# The card rounds each step to its format, with a relative error of at most 2**-10. That of
# x - max(x) grows with its size when exp follows; exp, sum, quotient and the copy add one each.
spread = (on_card.cpu().float().amax(-1) - on_card.cpu().float().amin(-1)).max().item()
torch.testing.assert_close(result.cpu().float(), expected, rtol=(spread + 4) * 2**-10, atol=2**-24)
print("the results on the card and on the CPU match")
