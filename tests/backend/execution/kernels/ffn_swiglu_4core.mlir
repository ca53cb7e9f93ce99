// SwiGLU with its hidden width on 4 cores: gate and up by columns, down by rows, each weight in
// four partitions of one distributed view. The cores' parts of the result are added over the ring.
#up0 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 - 0 >= 0, -d1 + 63 >= 0)>
#down0 = affine_set<(d0, d1) : (d0 - 0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#up1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 - 64 >= 0, -d1 + 127 >= 0)>
#down1 = affine_set<(d0, d1) : (d0 - 64 >= 0, -d0 + 127 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#up2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 - 128 >= 0, -d1 + 191 >= 0)>
#down2 = affine_set<(d0, d1) : (d0 - 128 >= 0, -d0 + 191 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#up3 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 - 192 >= 0, -d1 + 255 >= 0)>
#down3 = affine_set<(d0, d1) : (d0 - 192 >= 0, -d0 + 255 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#xs = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>
#one = affine_set<(g) : (g == 0)>
#HBM = #ktdp.spyre_memory_space<HBM>
module {
  func.func @ffn(%x: index, %gate: index, %up: index, %down: index, %y: index) attributes {grid = [4]} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %me = ktdp.get_compute_tile_id : index
    %h = %me * %c64 : index
    %gate_off0 = arith.constant 0 : index
    %gate_at0 = arith.addi %gate, %gate_off0 : index
    %gate0 = ktdp.construct_memory_view %gate_at0, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up0, memory_space = #HBM} : memref<64x64xf16>
    %gate_off1 = arith.constant 4096 : index
    %gate_at1 = arith.addi %gate, %gate_off1 : index
    %gate1 = ktdp.construct_memory_view %gate_at1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up1, memory_space = #HBM} : memref<64x64xf16>
    %gate_off2 = arith.constant 8192 : index
    %gate_at2 = arith.addi %gate, %gate_off2 : index
    %gate2 = ktdp.construct_memory_view %gate_at2, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up2, memory_space = #HBM} : memref<64x64xf16>
    %gate_off3 = arith.constant 12288 : index
    %gate_at3 = arith.addi %gate, %gate_off3 : index
    %gate3 = ktdp.construct_memory_view %gate_at3, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up3, memory_space = #HBM} : memref<64x64xf16>
    %gate_all = ktdp.construct_distributed_memory_view (%gate0, %gate1, %gate2, %gate3 : memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>) : memref<64x256xf16>
    %gate_tile = ktdp.construct_access_tile %gate_all[%c0, %h] {access_tile_set = #tile, access_tile_order = #id} : memref<64x256xf16> -> !ktdp.access_tile<64x64xindex>
    %gate_w = ktdp.load %gate_tile : <64x64xindex> -> tensor<64x64xf16>
    %up_off0 = arith.constant 0 : index
    %up_at0 = arith.addi %up, %up_off0 : index
    %up0 = ktdp.construct_memory_view %up_at0, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up0, memory_space = #HBM} : memref<64x64xf16>
    %up_off1 = arith.constant 4096 : index
    %up_at1 = arith.addi %up, %up_off1 : index
    %up1 = ktdp.construct_memory_view %up_at1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up1, memory_space = #HBM} : memref<64x64xf16>
    %up_off2 = arith.constant 8192 : index
    %up_at2 = arith.addi %up, %up_off2 : index
    %up2 = ktdp.construct_memory_view %up_at2, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up2, memory_space = #HBM} : memref<64x64xf16>
    %up_off3 = arith.constant 12288 : index
    %up_at3 = arith.addi %up, %up_off3 : index
    %up3 = ktdp.construct_memory_view %up_at3, sizes: [64, 64], strides: [64, 1] {coordinate_set = #up3, memory_space = #HBM} : memref<64x64xf16>
    %up_all = ktdp.construct_distributed_memory_view (%up0, %up1, %up2, %up3 : memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>) : memref<64x256xf16>
    %up_tile = ktdp.construct_access_tile %up_all[%c0, %h] {access_tile_set = #tile, access_tile_order = #id} : memref<64x256xf16> -> !ktdp.access_tile<64x64xindex>
    %up_w = ktdp.load %up_tile : <64x64xindex> -> tensor<64x64xf16>
    %down_off0 = arith.constant 0 : index
    %down_at0 = arith.addi %down, %down_off0 : index
    %down0 = ktdp.construct_memory_view %down_at0, sizes: [64, 64], strides: [64, 1] {coordinate_set = #down0, memory_space = #HBM} : memref<64x64xf16>
    %down_off1 = arith.constant 4096 : index
    %down_at1 = arith.addi %down, %down_off1 : index
    %down1 = ktdp.construct_memory_view %down_at1, sizes: [64, 64], strides: [64, 1] {coordinate_set = #down1, memory_space = #HBM} : memref<64x64xf16>
    %down_off2 = arith.constant 8192 : index
    %down_at2 = arith.addi %down, %down_off2 : index
    %down2 = ktdp.construct_memory_view %down_at2, sizes: [64, 64], strides: [64, 1] {coordinate_set = #down2, memory_space = #HBM} : memref<64x64xf16>
    %down_off3 = arith.constant 12288 : index
    %down_at3 = arith.addi %down, %down_off3 : index
    %down3 = ktdp.construct_memory_view %down_at3, sizes: [64, 64], strides: [64, 1] {coordinate_set = #down3, memory_space = #HBM} : memref<64x64xf16>
    %down_all = ktdp.construct_distributed_memory_view (%down0, %down1, %down2, %down3 : memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>) : memref<256x64xf16>
    %down_tile = ktdp.construct_access_tile %down_all[%h, %c0] {access_tile_set = #tile, access_tile_order = #id} : memref<256x64xf16> -> !ktdp.access_tile<64x64xindex>
    %down_w = ktdp.load %down_tile : <64x64xindex> -> tensor<64x64xf16>
    %xv = ktdp.construct_memory_view %x, sizes: [16, 64], strides: [64, 1] {coordinate_set = #xs, memory_space = #HBM} : memref<16x64xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [16, 64], strides: [64, 1] {coordinate_set = #xs, memory_space = #HBM} : memref<16x64xf16>
    %xt = ktdp.construct_access_tile %xv[%c0, %c0] {access_tile_set = #xs, access_tile_order = #id} : memref<16x64xf16> -> !ktdp.access_tile<16x64xindex>
    %in = ktdp.load %xt : <16x64xindex> -> tensor<16x64xf16>
    %zero = arith.constant dense<0.0> : tensor<16x64xf16>
    %g = linalg.matmul ins(%in, %gate_w : tensor<16x64xf16>, tensor<64x64xf16>) outs(%zero : tensor<16x64xf16>) -> tensor<16x64xf16>
    %u = linalg.matmul ins(%in, %up_w : tensor<16x64xf16>, tensor<64x64xf16>) outs(%zero : tensor<16x64xf16>) -> tensor<16x64xf16>
    %neg = arith.negf %g : tensor<16x64xf16>
    %exp = math.exp %neg : tensor<16x64xf16>
    %one = arith.constant dense<1.0> : tensor<16x64xf16>
    %more = arith.addf %exp, %one : tensor<16x64xf16>
    %sig = arith.divf %one, %more : tensor<16x64xf16>
    %silu = arith.mulf %g, %sig : tensor<16x64xf16>
    %hid = arith.mulf %silu, %u : tensor<16x64xf16>
    %part = linalg.matmul ins(%hid, %down_w : tensor<16x64xf16>, tensor<64x64xf16>) outs(%zero : tensor<16x64xf16>) -> tensor<16x64xf16>
    %flat = tensor.collapse_shape %part [[0, 1]] : tensor<16x64xf16> into tensor<1024xf16>
    %none = arith.constant dense<0.0> : tensor<1024xf16>
    %f = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<1024xf16>), groups = #one>
    {
      ^bb0(%gid: index):
        ktdp.yield_partial %flat : tensor<1024xf16>
    }
    %s = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #all, identity(%none : tensor<1024xf16>) : <(tensor<1024xf16>), groups = #one> -> tensor<1024xf16>
    {
      ^bb0(%l: tensor<1024xf16>, %r: tensor<1024xf16>):
        %a = arith.addf %l, %r : tensor<1024xf16>
        ktdp.yield_reduced %a : tensor<1024xf16>
    }
    %o = tensor.expand_shape %s [[0, 1]] output_shape [16, 64] : tensor<1024xf16> into tensor<16x64xf16>
    %yt = ktdp.construct_access_tile %yv[%c0, %c0] {access_tile_set = #xs, access_tile_order = #id} : memref<16x64xf16> -> !ktdp.access_tile<16x64xindex>
    %first = arith.cmpi eq, %me, %c0 : index
    scf.if %first {
      ktdp.store %o, %yt : tensor<16x64xf16>, <16x64xindex>
    }
    return
  }
}
