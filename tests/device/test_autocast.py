"""`torch.autocast("spyre")`: which ops run in the lower precision, in float32, or in the widest."""

import functools

import pytest
import torch
import torch.nn.functional as F

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

FP16, BF16, FP32 = torch.float16, torch.bfloat16, torch.float32


def ones(*size, dtype=FP32):
    return torch.ones(size, dtype=dtype, device="spyre")


# Each function creates its inputs in the dtype of its argument.
LOWER_PRECISION = {
    "mm": lambda t: torch.mm(t(4, 4), t(4, 4)),
    "matmul": lambda t: t(4, 4) @ t(4),
    "bmm": lambda t: torch.bmm(t(2, 4, 4), t(2, 4, 4)),
    "mv": lambda t: torch.mv(t(4, 4), t(4)),
    "addmm": lambda t: torch.addmm(t(4), t(4, 4), t(4, 4)),
    "addmv": lambda t: torch.addmv(t(4), t(4, 4), t(4)),
    "addr": lambda t: torch.addr(t(4, 4), t(4), t(4)),
    "addbmm": lambda t: torch.addbmm(t(4, 4), t(2, 4, 4), t(2, 4, 4)),
    "baddbmm": lambda t: torch.baddbmm(t(2, 4, 4), t(2, 4, 4), t(2, 4, 4)),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(4, 4), t(4, 4)),
    "linalg_vecdot": lambda t: torch.linalg.vecdot(t(4, 4), t(4, 4)),
    "linalg_multi_dot": lambda t: torch.linalg.multi_dot([t(4, 4), t(4, 4), t(4, 4)]),
    "chain_matmul": lambda t: torch.chain_matmul(t(4, 4), t(4, 4)),
    "linear": lambda t: F.linear(t(4, 4), t(4, 4), t(4)),
    "conv1d": lambda t: F.conv1d(t(1, 2, 8), t(3, 2, 3), t(3)),
    "conv2d": lambda t: F.conv2d(t(1, 2, 8, 8), t(3, 2, 3, 3)),
    "conv3d": lambda t: F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 3, 3, 3)),
    "conv_tbc": lambda t: torch.conv_tbc(t(8, 1, 2), t(3, 2, 3), t(3)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(t(1, 2, 8), t(2, 3, 3)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(1, 2, 8, 8), t(2, 3, 3, 3)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(t(1, 2, 4, 4, 4), t(2, 3, 3, 3, 3)),
    "prelu": lambda t: F.prelu(t(2, 3), t(3)),
    "lstm_cell": lambda t: torch.lstm_cell(t(2, 3), (t(2, 4), t(2, 4)), t(16, 3), t(16, 4)),
    "gru_cell": lambda t: torch.gru_cell(t(2, 3), t(2, 4), t(12, 3), t(12, 4)),
    "rnn_tanh_cell": lambda t: torch.rnn_tanh_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4)),
    "rnn_relu_cell": lambda t: torch.rnn_relu_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4)),
    "scaled_dot_product_attention": lambda t: F.scaled_dot_product_attention(
        t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)
    ),
}
UNARY = [
    torch.acos, torch.asin, torch.cosh, torch.erfinv, torch.exp, torch.expm1, torch.log,
    torch.log10, torch.log2, torch.log1p, torch.reciprocal, torch.rsqrt, torch.sinh, torch.tan,
]  # fmt: skip
FLOAT32 = {op.__name__: lambda t, op=op: op(t(5)) for op in UNARY} | {
    "pow(tensor, scalar)": lambda t: torch.pow(t(5), 2),
    "pow(tensor, tensor)": lambda t: torch.pow(t(5), t(5)),
    "pow(scalar, tensor)": lambda t: torch.pow(2, t(5)),
    "softplus": lambda t: F.softplus(t(5)),
    "layer_norm": lambda t: F.layer_norm(t(2, 5), (5,), t(5), t(5)),
    "native_layer_norm": lambda t: torch.native_layer_norm(t(2, 5), (5,), t(5), t(5), 1e-5),
    "group_norm": lambda t: F.group_norm(t(2, 4, 5), 2, t(4), t(4)),
    "cosine_similarity": lambda t: F.cosine_similarity(t(2, 5), t(2, 5)),
    "poisson_nll_loss": lambda t: F.poisson_nll_loss(t(5), t(5)),
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(2, 5), t(2, 5), t(2)),
    "nll_loss": lambda t: F.nll_loss(t(2, 5), torch.tensor([1, 2]).to("spyre")),
    "nll_loss2d": lambda t: F.nll_loss(t(1, 5, 2, 2), ones(1, 2, 2).long()),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(5), t(5)),
    "kl_div": lambda t: F.kl_div(t(5), t(5), reduction="sum"),
    "l1_loss": lambda t: F.l1_loss(t(5), t(5)),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t(5), t(5)),
    "huber_loss": lambda t: F.huber_loss(t(5), t(5)),
    "mse_loss": lambda t: F.mse_loss(t(5), t(5)),
    "margin_ranking_loss": lambda t: F.margin_ranking_loss(t(5), t(5), t(5)),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(t(2, 3), ones(2, 3).long()),
    "soft_margin_loss": lambda t: F.soft_margin_loss(t(5), t(5)),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(2, 5), t(2, 5), t(2, 5)),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(2, 3), torch.tensor([0, 1]).to("spyre")),
    "binary_cross_entropy_with_logits": lambda t: F.binary_cross_entropy_with_logits(t(5), t(5)),
    "dist": lambda t: torch.dist(t(5), t(5)),
    "pdist": lambda t: F.pdist(t(3, 5)),
    "cdist": lambda t: torch.cdist(t(2, 5), t(3, 5)),
    "renorm": lambda t: torch.renorm(t(2, 5), 2, 0, 1.0),
    "logsumexp": lambda t: torch.logsumexp(t(2, 5), 1),
    "upsample nearest": lambda t: F.interpolate(t(1, 1, 4), scale_factor=2),
    "upsample nearest-exact": lambda t: F.interpolate(t(1, 1, 4), 8, mode="nearest-exact"),
    "upsample bilinear": lambda t: F.interpolate(t(1, 1, 4, 4), 8, mode="bilinear"),
    "upsample bicubic aa": lambda t: F.interpolate(
        t(1, 1, 4, 4), 2, mode="bicubic", antialias=True
    ),
    "upsample trilinear": lambda t: F.interpolate(t(1, 1, 2, 2, 2), 4, mode="trilinear"),
}
# Each function accepts factories of a narrow and of a wide input.
WIDEST = {
    "addcdiv": lambda n, w: torch.addcdiv(n(5), w(5), n(5)),
    "addcmul": lambda n, w: torch.addcmul(n(5), n(5), w(5)),
    "atan2": lambda n, w: torch.atan2(n(5), w(5)),
    "bilinear": lambda n, w: F.bilinear(n(2, 3), w(2, 4), n(5, 3, 4)),
    "cross": lambda n, w: torch.cross(n(2, 3), w(2, 3), dim=1),
    "dot": lambda n, w: torch.dot(n(5), w(5)),
    "vdot": lambda n, w: torch.vdot(w(5), n(5)),
    "grid_sampler": lambda n, w: F.grid_sample(n(1, 1, 3, 3), w(1, 2, 2, 2), align_corners=False),
    "index_put": lambda n, w: torch.index_put(w(5), [torch.tensor([1]).to("spyre")], n(1)),
    "tensordot": lambda n, w: torch.tensordot(n(3, 3), w(3, 3), 1),
    "scatter_add": lambda n, w: torch.scatter_add(w(5), 0, torch.tensor([1, 2]).to("spyre"), n(2)),
}


def result_dtype(result):
    return (result[0] if isinstance(result, tuple) else result).dtype


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("op", LOWER_PRECISION.values(), ids=LOWER_PRECISION)
def test_ops_that_gain_from_it_run_in_the_lower_precision(op, dtype):
    with torch.autocast("spyre", dtype=dtype):
        assert result_dtype(op(ones)) == dtype


@pytest.mark.parametrize("op", FLOAT32.values(), ids=FLOAT32)
def test_ops_that_need_range_or_precision_run_in_float32(op):
    with torch.autocast("spyre"):
        assert result_dtype(op(lambda *size: ones(*size, dtype=FP16))) == FP32


@pytest.mark.parametrize("op", WIDEST.values(), ids=WIDEST)
def test_ops_of_several_inputs_run_in_the_widest_type(op):
    narrow = functools.partial(ones, dtype=FP16)
    with torch.autocast("spyre"):
        assert result_dtype(op(narrow, ones)) == FP32
        assert result_dtype(op(narrow, narrow)) == FP16


def test_other_ops_preserve_the_input_dtype():
    with torch.autocast("spyre"):
        for dtype in (FP16, FP32):
            x = ones(3, 5, dtype=dtype)
            for result in (x + x, x.relu(), x.t(), x.clone(), torch.zeros_like(x), x.abs()):
                assert result.dtype == dtype
        assert (ones(3, dtype=FP16) + ones(3)).dtype == FP32
        assert ones(3).fill_(2).dtype == FP32


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "softmax", "log_softmax"])
def test_unlisted_reductions_preserve_their_dtype(name):
    with torch.autocast("spyre"):
        assert getattr(torch, name)(ones(3, 5, dtype=FP16), 1).dtype == FP16


def test_the_default_is_float16_and_can_be_changed():
    assert torch.get_autocast_dtype("spyre") == FP16
    with torch.autocast("spyre", dtype=BF16):
        assert torch.is_autocast_enabled("spyre")
        assert torch.get_autocast_dtype("spyre") == BF16
    assert not torch.is_autocast_enabled("spyre")
    assert torch.get_autocast_dtype("spyre") == FP16


def test_autocast_applies_only_inside_enabled_contexts():
    x = ones(4, 4)
    assert (x @ x).dtype == FP32
    with torch.autocast("spyre"):
        assert (x @ x).dtype == FP16
        with torch.autocast("spyre", enabled=False):
            assert (x @ x).dtype == FP32
        with torch.autocast("spyre", dtype=BF16):
            assert (x @ x).dtype == BF16
        assert (x @ x).dtype == FP16
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == FP32
    with torch.autocast("cpu", dtype=BF16):
        assert (x @ x).dtype == FP32
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == BF16


def test_integers_are_not_cast():
    with torch.autocast("spyre"):
        assert (ones(4, 4).int() @ ones(4, 4).int()).dtype == torch.int32


def test_a_dtype_that_is_not_for_autocast_warns_and_disables_it():
    with (
        pytest.warns(UserWarning, match="autocast, but the target dtype is not supported"),
        torch.autocast("spyre", dtype=FP32),
    ):
        assert not torch.is_autocast_enabled("spyre")


def test_it_works_as_a_decorator():
    @torch.autocast("spyre", dtype=BF16)
    def product(a, b):
        return a @ b

    assert product(ones(4, 4), ones(4, 4)).dtype == BF16


def test_training_under_autocast_has_float32_gradients_that_match_the_cpu():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    data, target = torch.randn(6, 16), torch.randint(0, 4, (6,))
    F.cross_entropy(model(data), target).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model.to("spyre")
    with torch.autocast("spyre", dtype=FP16):
        output = model(data.to("spyre"))
        loss = F.cross_entropy(output, target.to("spyre"))
    assert (output.dtype, loss.dtype) == (FP16, FP32)
    loss.backward()
    for parameter, expected_grad in zip(model.parameters(), expected, strict=True):
        assert parameter.grad.dtype == FP32
        torch.testing.assert_close(parameter.grad.cpu(), expected_grad, rtol=0.05, atol=5e-3)


def test_a_grad_scaler_scales():
    scaler = torch.amp.GradScaler("spyre", init_scale=1024.0)
    weight = torch.nn.Parameter(ones(4))
    scaled = scaler.scale((weight * 2).sum())
    scaled.backward()
    assert scaled.item() == 8 * 1024 and weight.grad.tolist() == [2048.0] * 4
    assert [part.item() for part in scaler.scale([ones(1), ones(1)])] == [1024, 1024]
    assert torch.amp.GradScaler("spyre").state_dict() == torch.amp.GradScaler("cpu").state_dict()
    assert not torch.amp.GradScaler("spyre", enabled=False).is_enabled()


def test_a_grad_scaler_steps_and_skips_a_step_with_infinities():
    weight = torch.nn.Parameter(ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("spyre", init_scale=1024.0, growth_interval=1)
    scaler.scale((weight * 2).sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [2.0] * 4
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0] * 4 and scaler.get_scale() == 2048.0
    optimizer.zero_grad()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0] * 4 and scaler.get_scale() == 1024.0


@pytest.mark.parametrize("name", ["GradScaler", "autocast"])
def test_the_names_of_torch_cuda_amp_are_deprecated_as_there(name):
    with pytest.warns(FutureWarning) as expected:
        getattr(torch.cuda.amp, name)(enabled=False)
    with pytest.warns(FutureWarning) as actual:
        getattr(torch.spyre.amp, name)(enabled=False)
    deprecation = next(str(w.message) for w in expected if "deprecated" in str(w.message))
    assert [str(w.message) for w in actual] == [deprecation.replace("cuda", "spyre")]


def test_a_grad_scaler_before_its_first_scale_raises_as_on_the_cpu():
    def unscale(device):
        parameter = torch.nn.Parameter(torch.ones(3, device=device))
        parameter.grad = torch.ones_like(parameter)
        scaler = torch.amp.GradScaler(device)
        with pytest.raises(AssertionError) as error:
            scaler.unscale_(torch.optim.SGD([parameter], 0.1))
        return str(error.value)

    assert unscale("spyre") == unscale("cpu")


def test_unscale_without_the_attribute_of_the_scale():
    scaler = torch.amp.GradScaler("spyre", enabled=False)
    parameter = torch.nn.Parameter(torch.ones(3, device="spyre"))
    scaler.unscale_(torch.optim.SGD([parameter], 0.1))
    assert not hasattr(scaler, "_scale")
