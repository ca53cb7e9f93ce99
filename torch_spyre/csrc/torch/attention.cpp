// Selects the attention backend on the card: the Spyre kernel, or PyTorch's math decomposition.
#include <ATen/ExpandUtils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <algorithm>

#include "torch/dtypes.h"

namespace at::native {

namespace {

// Returns whether the shapes match without broadcasting. PyTorch does not check this for backends.
bool has_matching_shapes(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& mask, bool enable_gqa) {
  const int64_t dims = query.dim();
  // PyTorch infers the shapes of results with one batch dim and one head dim only.
  if (dims != 4 || key.dim() != dims || value.dim() != dims) return false;
  for (int64_t dim = 0; dim < dims - 2; ++dim) {
    if (key.sym_size(dim) != value.sym_size(dim)) return false;
    const bool is_grouped = enable_gqa && dim == dims - 3 && key.sym_size(dim) > 0 &&
                            query.sym_size(dim) % key.sym_size(dim) == 0;
    if (query.sym_size(dim) != key.sym_size(dim) && !is_grouped) return false;
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
  // PyTorch's math decomposition handles dropout, broadcasting and invalid arguments, and float64
  // in its own precision.
  const bool is_supported = dropout_p == 0 && !spyre::is_raw_dtype(query.scalar_type()) &&
                            has_matching_shapes(query, key, value, attn_mask, enable_gqa);
  return static_cast<int64_t>(is_supported ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

// --- Other numbers of dims and broadcast batches, flattened to one batch dim

using Sizes = std::vector<c10::SymInt>;

// Returns the sizes, padded with leading ones to `dims` dims.
Sizes sizes_of(const Tensor& tensor, int64_t dims) {
  Sizes sizes(dims - tensor.dim(), 1);
  sizes.insert(sizes.end(), tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  return sizes;
}

Sizes concatenated(const Sizes& batches, c10::SymIntArrayRef inner_sizes) {
  Sizes sizes = batches;
  sizes.insert(sizes.end(), inner_sizes.begin(), inner_sizes.end());
  return sizes;
}

Tensor flatten_batch_dims(const Tensor& tensor, const Sizes& batches, const c10::SymInt& heads) {
  const Sizes inner_sizes = {heads, tensor.sym_size(-2), tensor.sym_size(-1)};
  const Tensor expanded = tensor.expand_symint(concatenated(batches, inner_sizes));
  return expanded.reshape_symint(concatenated({c10::multiply_integers(batches)}, inner_sizes));
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const std::optional<Tensor>& mask, double dropout_p, bool is_causal,
                 std::optional<double> scale, bool enable_gqa) {
  const auto call_unchanged = [&] {
    return native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal,
                                                scale, enable_gqa);
  };
  // PyTorch rejects vectors, and grouped-query attention without a head dim.
  const int64_t min_dims = std::min({query.dim(), key.dim(), value.dim()});
  const bool can_flatten = dropout_p == 0 && min_dims >= (enable_gqa ? 3 : 2);
  if (!can_flatten || has_matching_shapes(query, key, value, mask, enable_gqa))
    return call_unchanged();

  const int64_t dims = std::max<int64_t>({query.dim(), key.dim(), value.dim(), 3});
  const Sizes queries = sizes_of(query, dims);
  const Sizes keys = sizes_of(key, dims);
  const Sizes values = sizes_of(value, dims);
  const auto broadcast = [&](int64_t first, int64_t count) {
    const auto slice = [&](const Sizes& sizes) {
      return c10::SymIntArrayRef(sizes).slice(first, count);
    };
    return infer_size_symint(slice(queries), infer_size_symint(slice(keys), slice(values)));
  };
  const int64_t head_dim = dims - 3;
  const Sizes batches = broadcast(0, head_dim);
  const bool has_shared_heads = enable_gqa || (keys[head_dim] == 1 && values[head_dim] == 1);
  const auto flatten_batches = [&](const Tensor& tensor, const Sizes& sizes) {
    const c10::SymInt heads = has_shared_heads ? sizes[head_dim] : broadcast(head_dim, 1)[0];
    return flatten_batch_dims(tensor, batches, heads);
  };
  const Tensor flat_query = flatten_batches(query, queries);
  const Tensor flat_key = flatten_batches(key, keys);
  const Tensor flat_value = flatten_batches(value, values);
  std::optional<Tensor> flat_mask = mask;
  if (mask.has_value() && mask->dim() > 3) {
    if (mask->dim() > dims) return call_unchanged();  // raises an error
    flat_mask = flatten_batch_dims(*mask, batches, mask->sym_size(-3));
  }
  if (!has_matching_shapes(flat_query, flat_key, flat_value, flat_mask, has_shared_heads))
    return call_unchanged();
  const Tensor result = native::scaled_dot_product_attention(
      flat_query, flat_key, flat_value, flat_mask, dropout_p, is_causal, scale, has_shared_heads);
  Sizes shape = concatenated(batches, result.sym_sizes().slice(1));
  const int64_t max_dims = std::max({query.dim(), key.dim(), value.dim()});
  shape.erase(shape.begin(), shape.end() - max_dims);
  // Only results of four dims have the order of the query's dims.
  return result.reshape_symint(shape).contiguous();
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
