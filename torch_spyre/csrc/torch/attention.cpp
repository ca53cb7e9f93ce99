// Which attention PyTorch uses on the card: ours, or its own composition of other ops.
#include <ATen/ExpandUtils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <algorithm>

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

// --- Other numbers of dims, and batches that are broadcast: as one dim of batches.

using Sizes = std::vector<c10::SymInt>;

// As if the tensor had `dims` dims.
Sizes sizes_of(const Tensor& tensor, int64_t dims) {
  Sizes sizes(dims - tensor.dim(), 1);
  sizes.insert(sizes.end(), tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  return sizes;
}

Sizes joined(const Sizes& batches, c10::SymIntArrayRef others) {
  Sizes sizes = batches;
  sizes.insert(sizes.end(), others.begin(), others.end());
  return sizes;
}

Tensor with_one_batch_dim(const Tensor& tensor, const Sizes& batches, const c10::SymInt& heads) {
  const Sizes others = {heads, tensor.sym_size(-2), tensor.sym_size(-1)};
  const Tensor wide = tensor.expand_symint(joined(batches, others));
  return wide.reshape_symint(joined({c10::multiply_integers(batches)}, others));
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const std::optional<Tensor>& mask, double dropout_p, bool is_causal,
                 std::optional<double> scale, bool enable_gqa) {
  const auto as_given = [&] {
    return native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal,
                                                scale, enable_gqa);
  };
  // Vectors are refused, as are shared heads without a dim of heads.
  const int64_t fewest_dims = std::min({query.dim(), key.dim(), value.dim()});
  const bool can_differ = dropout_p == 0 && fewest_dims >= (enable_gqa ? 3 : 2);
  if (!can_differ || fit_together(query, key, value, mask, enable_gqa)) return as_given();

  const int64_t dims = std::max<int64_t>({query.dim(), key.dim(), value.dim(), 3});
  const Sizes queries = sizes_of(query, dims);
  const Sizes keys = sizes_of(key, dims);
  const Sizes values = sizes_of(value, dims);
  const auto broadcast = [&](int64_t first, int64_t count) {
    const auto part = [&](const Sizes& all) {
      return c10::SymIntArrayRef(all).slice(first, count);
    };
    return infer_size_symint(part(queries), infer_size_symint(part(keys), part(values)));
  };
  const int64_t head_dim = dims - 3;
  const Sizes batches = broadcast(0, head_dim);
  const bool share_heads = enable_gqa || (keys[head_dim] == 1 && values[head_dim] == 1);
  const auto on_one_dim = [&](const Tensor& tensor, const Sizes& sizes) {
    const c10::SymInt heads = share_heads ? sizes[head_dim] : broadcast(head_dim, 1)[0];
    return with_one_batch_dim(tensor, batches, heads);
  };
  const Tensor one_query = on_one_dim(query, queries);
  const Tensor one_key = on_one_dim(key, keys);
  const Tensor one_value = on_one_dim(value, values);
  std::optional<Tensor> one_mask = mask;
  if (mask.has_value() && mask->dim() > 3) {
    if (mask->dim() > dims) return as_given();  // refuses it
    one_mask = with_one_batch_dim(*mask, batches, mask->sym_size(-3));
  }
  if (!fit_together(one_query, one_key, one_value, one_mask, share_heads)) return as_given();
  const Tensor result = native::scaled_dot_product_attention(
      one_query, one_key, one_value, one_mask, dropout_p, is_causal, scale, share_heads);
  Sizes shape = joined(batches, result.sym_sizes().slice(1));
  const int64_t most_dims = std::max({query.dim(), key.dim(), value.dim()});
  shape.erase(shape.begin(), shape.end() - most_dims);
  return result.reshape_symint(shape);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

}  // namespace at::native
