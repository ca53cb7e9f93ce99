// Which attention PyTorch uses on the card: ours, which the compiler takes apart.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

namespace at::native {

namespace {

int64_t choose_attention(const Tensor& /*query*/, const Tensor& /*key*/, const Tensor& /*value*/,
                         const std::optional<Tensor>& /*attn_mask*/, double dropout_p,
                         bool /*is_causal*/, std::optional<double> /*scale*/, bool /*enable_gqa*/) {
  // Dropout needs random numbers inside: PyTorch's own composition draws them.
  const auto choice = dropout_p > 0 ? sdp::SDPBackend::math : sdp::SDPBackend::overrideable;
  return static_cast<int64_t>(choice);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
}

}  // namespace at::native
