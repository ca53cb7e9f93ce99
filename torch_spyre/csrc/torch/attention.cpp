// Which attention PyTorch uses on the card: ours, or its own composition of other ops.
#include <ATen/ExpandUtils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

namespace at::native {

namespace {

// Tensors that belong together without being broadcast. PyTorch does not check this for us.
bool fit_together(const Tensor& query, const Tensor& key, const Tensor& value,
                  const std::optional<Tensor>& mask, bool enable_gqa) {
  const int64_t dims = query.dim();
  // The shapes of results are only known to PyTorch with or without one dim of batches.
  if ((dims != 3 && dims != 4) || key.dim() != dims || value.dim() != dims) return false;
  for (int64_t dim = 0; dim < dims - 2; ++dim) {
    if (key.sym_size(dim) != value.sym_size(dim)) return false;
    const bool may_share = enable_gqa && dim == dims - 3 && key.sym_size(dim) > 0 &&
                           query.sym_size(dim) % key.sym_size(dim) == 0;
    if (query.sym_size(dim) != key.sym_size(dim) && !may_share) return false;
  }
  if (query.sym_size(-1) != key.sym_size(-1) || query.sym_size(-1) == 0) return false;
  if (key.sym_size(-2) != value.sym_size(-2)) return false;
  if (!mask.has_value()) return true;
  auto scores = query.sym_sizes().vec();
  scores.back() = key.sym_size(-2);
  return is_expandable_to(mask->sym_sizes(), scores);
}

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& attn_mask, double dropout_p,
                         bool /*is_causal*/, std::optional<double> /*scale*/, bool enable_gqa) {
  // PyTorch's own composition draws the random numbers of dropout, broadcasts, and refuses.
  const bool is_ours = dropout_p == 0 && fit_together(query, key, value, attn_mask, enable_gqa);
  return static_cast<int64_t>(is_ours ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
}

}  // namespace at::native
