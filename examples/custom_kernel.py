"""Makes a hand-written kernel an op of PyTorch, and trains a layer with it on the card.

Run it with: python examples/custom_kernel.py
"""

import torch

from torch_spyre import ktir

# Scales the rows of a 64x128 matrix: each of 32 cores loads two rows, scales and stores them.
KERNEL = """
#rows = affine_set<(r, c) : (r >= 0, -r + 1 >= 0, c >= 0, -c + 127 >= 0)>
module {
  func.func @scale(%x: index, %y: index, %factor: f32) attributes {grid = [32]} {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %core = ktdp.get_compute_tile_id : index
    %row = arith.muli %core, %two : index
    %xs = ktdp.construct_memory_view %x, sizes: [64, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<64x128xf32>
    %ys = ktdp.construct_memory_view %y, sizes: [64, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<64x128xf32>
    %from = ktdp.construct_access_tile %xs[%row, %zero] {access_tile_set = #rows} : memref<64x128xf32> -> !ktdp.access_tile<2x128xindex>
    %to = ktdp.construct_access_tile %ys[%row, %zero] {access_tile_set = #rows} : memref<64x128xf32> -> !ktdp.access_tile<2x128xindex>
    %values = ktdp.load %from : <2x128xindex> -> tensor<2x128xf32>
    %factors = tensor.splat %factor : tensor<2x128xf32>
    %scaled = arith.mulf %values, %factors : tensor<2x128xf32>
    ktdp.store %scaled, %to : tensor<2x128xf32>, <2x128xindex>
    return
  }
}
"""  # noqa: E501

scale = ktir.custom_op("example::scale", KERNEL, function="scale", outputs={"y": "x"})
# The gradient of factor * x is factor * gradient: the same kernel.
scale.register_autograd(
    lambda ctx, gradient: scale(gradient, factor=ctx.factor),
    setup_context=lambda ctx, inputs, keyword_only_inputs, output: setattr(
        ctx, "factor", keyword_only_inputs["factor"]
    ),
)


class Scaled(torch.nn.Module):
    """A linear layer whose result the kernel scales."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scale(self.linear(x), factor=0.5)


torch.manual_seed(0)
x = torch.randn(64, 64, device="spyre")
model = Scaled().to("spyre")
eager = model(x)
compiled = torch.compile(model, fullgraph=True)(x)
print(f"eager and compiled agree: {torch.allclose(eager.cpu(), compiled.cpu(), atol=1e-5)}")

expected = 0.5 * torch.nn.functional.linear(x, model.linear.weight, model.linear.bias)
torch.testing.assert_close(eager.cpu(), expected.cpu(), rtol=1e-5, atol=1e-5)
print("the kernel and PyTorch's multiplication agree")

optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
losses = []
for _ in range(5):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss falls: {losses[-1] < losses[0]}")
