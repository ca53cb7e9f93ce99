// Rotary embedding of 8 heads, 128 positions, 64 channels; the two halves of a head are rotated together.
// Core (h, p) has head h and 32 positions. cos and sin are 128x32.
#x_all = affine_set<(h, p, c) : (h >= 0, -h + 7 >= 0, p >= 0, -p + 127 >= 0, c >= 0, -c + 63 >= 0)>
#a_all = affine_set<(p, c) : (p >= 0, -p + 127 >= 0, c >= 0, -c + 31 >= 0)>
#head = affine_set<(h, p, c) : (h >= 0, -h >= 0, p >= 0, -p + 31 >= 0, c >= 0, -c + 63 >= 0)>
#angles = affine_set<(p, c) : (p >= 0, -p + 31 >= 0, c >= 0, -c + 31 >= 0)>
#same3 = affine_map<(h, p, c) -> (h, p, c)>
#same2 = affine_map<(p, c) -> (p, c)>
module {
  func.func @rope(%x: index, %cosine: index, %sine: index, %y: index) attributes {grid = [8, 4]} {
    %zero = arith.constant 0 : index
    %share = arith.constant 32 : index
    %h, %q = ktdp.get_compute_tile_id : index, index
    %p = arith.muli %q, %share : index
    %xs = ktdp.construct_memory_view %x, sizes: [8, 128, 64], strides: [8192, 64, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<8x128x64xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [8, 128, 64], strides: [8192, 64, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<8x128x64xf16>
    %cs = ktdp.construct_memory_view %cosine, sizes: [128, 32], strides: [32, 1] {coordinate_set = #a_all, memory_space = #ktdp.memory_space<global>} : memref<128x32xf16>
    %ss = ktdp.construct_memory_view %sine, sizes: [128, 32], strides: [32, 1] {coordinate_set = #a_all, memory_space = #ktdp.memory_space<global>} : memref<128x32xf16>
    %xt = ktdp.construct_access_tile %xs[%h, %p, %zero] {access_tile_set = #head, access_tile_order = #same3} : memref<8x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    %yt = ktdp.construct_access_tile %ys[%h, %p, %zero] {access_tile_set = #head, access_tile_order = #same3} : memref<8x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    %ct = ktdp.construct_access_tile %cs[%p, %zero] {access_tile_set = #angles, access_tile_order = #same2} : memref<128x32xf16> -> !ktdp.access_tile<32x32xindex>
    %st = ktdp.construct_access_tile %ss[%p, %zero] {access_tile_set = #angles, access_tile_order = #same2} : memref<128x32xf16> -> !ktdp.access_tile<32x32xindex>
    %block = ktdp.load %xt : <1x32x64xindex> -> tensor<1x32x64xf16>
    %cos = ktdp.load %ct : <32x32xindex> -> tensor<32x32xf16>
    %sin = ktdp.load %st : <32x32xindex> -> tensor<32x32xf16>
    %first = tensor.extract_slice %block[0, 0, 0] [1, 32, 32] [1, 1, 1] : tensor<1x32x64xf16> to tensor<32x32xf16>
    %second = tensor.extract_slice %block[0, 0, 32] [1, 32, 32] [1, 1, 1] : tensor<1x32x64xf16> to tensor<32x32xf16>
    %a = arith.mulf %first, %cos : tensor<32x32xf16>
    %b = arith.mulf %second, %sin : tensor<32x32xf16>
    %c = arith.mulf %first, %sin : tensor<32x32xf16>
    %d = arith.mulf %second, %cos : tensor<32x32xf16>
    %left = arith.subf %a, %b : tensor<32x32xf16>
    %right = arith.addf %c, %d : tensor<32x32xf16>
    %blank = tensor.empty() : tensor<1x32x64xf16>
    %one = tensor.insert_slice %left into %blank[0, 0, 0] [1, 32, 32] [1, 1, 1] : tensor<32x32xf16> into tensor<1x32x64xf16>
    %both = tensor.insert_slice %right into %one[0, 0, 32] [1, 32, 32] [1, 1, 1] : tensor<32x32xf16> into tensor<1x32x64xf16>
    ktdp.store %both, %yt : tensor<1x32x64xf16>, <1x32x64xindex>
    return
  }
}
