// One 64x64 array in three memories: rows 0-31 in device memory, 32-47 and 48-63 in the scratchpads of
// cores 0 and 1, the latter column-major. Core 0 first fills the scratchpads from x,
// then reads all 64 rows as one array and doubles them.
#x_all = affine_set<(r, c) : (r >= 0, -r + 63 >= 0, c >= 0, -c + 63 >= 0)>
#top = affine_set<(r, c) : (r >= 0, -r + 31 >= 0, c >= 0, -c + 63 >= 0)>
#middle = affine_set<(r, c) : (r - 32 >= 0, -r + 47 >= 0, c >= 0, -c + 63 >= 0)>
#bottom = affine_set<(r, c) : (r - 48 >= 0, -r + 63 >= 0, c >= 0, -c + 63 >= 0)>
#part = affine_set<(r, c) : (r >= 0, -r + 31 >= 0, c >= 0, -c + 63 >= 0)>
#same = affine_map<(r, c) -> (r, c)>
module {
  func.func @distributed(%x: index, %y: index) attributes {grid = [2]} {
    %zero = arith.constant 0 : index
    %half = arith.constant 32 : index
    %core = ktdp.get_compute_tile_id : index
    %xs = ktdp.construct_memory_view %x, sizes: [64, 64], strides: [64, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [64, 64], strides: [64, 1] {coordinate_set = #x_all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %a = ktdp.construct_memory_view %x, sizes: [32, 64], strides: [64, 1] {coordinate_set = #top, memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %b = ktdp.construct_memory_view %zero, sizes: [16, 64], strides: [64, 1] {coordinate_set = #middle, memory_space = #ktdp.memory_space<ct_local, ct_id = 0>} : memref<16x64xf16>
    %c = ktdp.construct_memory_view %zero, sizes: [16, 64], strides: [1, 16] {coordinate_set = #bottom, memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<16x64xf16>
    %whole = ktdp.construct_distributed_memory_view (%a, %b, %c : memref<32x64xf16>, memref<16x64xf16>, memref<16x64xf16>) : memref<64x64xf16>
    %first = arith.cmpi eq, %core, %zero : index
    scf.if %first {
      %xt = ktdp.construct_access_tile %xs[%half, %zero] {access_tile_set = #part, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<32x64xindex>
      %wt = ktdp.construct_access_tile %whole[%half, %zero] {access_tile_set = #part, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<32x64xindex>
      %lower = ktdp.load %xt : <32x64xindex> -> tensor<32x64xf16>
      ktdp.store %lower, %wt : tensor<32x64xf16>, <32x64xindex>
      %all = ktdp.construct_access_tile %whole[%zero, %zero] {access_tile_set = #x_all, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<64x64xindex>
      %yt = ktdp.construct_access_tile %ys[%zero, %zero] {access_tile_set = #x_all, access_tile_order = #same} : memref<64x64xf16> -> !ktdp.access_tile<64x64xindex>
      %values = ktdp.load %all : <64x64xindex> -> tensor<64x64xf16>
      %twice = arith.addf %values, %values : tensor<64x64xf16>
      ktdp.store %twice, %yt : tensor<64x64xf16>, <64x64xindex>
    }
    return
  }
}
