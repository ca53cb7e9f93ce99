module {
	func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_256 = arith.constant 256 : index
		%arg_0_core_256 = arith.addi %arg_0, %arg_0_core_offset_256 : index
		%arg_0_core_offset_512 = arith.constant 512 : index
		%arg_0_core_512 = arith.addi %arg_0, %arg_0_core_offset_512 : index
		%arg_0_core_offset_768 = arith.constant 768 : index
		%arg_0_core_768 = arith.addi %arg_0, %arg_0_core_offset_768 : index
		%arg_2_core_offset_256 = arith.constant 256 : index
		%arg_2_core_256 = arith.addi %arg_2, %arg_2_core_offset_256 : index
		%arg_2_core_offset_512 = arith.constant 512 : index
		%arg_2_core_512 = arith.addi %arg_2, %arg_2_core_offset_512 : index
		%arg_2_core_offset_768 = arith.constant 768 : index
		%arg_2_core_768 = arith.addi %arg_2, %arg_2_core_offset_768 : index
		%arg_1_core_offset_256 = arith.constant 256 : index
		%arg_1_core_256 = arith.addi %arg_1, %arg_1_core_offset_256 : index
		%arg_1_core_offset_512 = arith.constant 512 : index
		%arg_1_core_512 = arith.addi %arg_1, %arg_1_core_offset_512 : index
		%arg_1_core_offset_768 = arith.constant 768 : index
		%arg_1_core_768 = arith.addi %arg_1, %arg_1_core_offset_768 : index
		%pool_offset_0 = arith.constant 0 : index
		%pool_addr_0 = arith.addi %pool, %pool_offset_0 : index
		%pool_offset_256 = arith.constant 256 : index
		%pool_addr_256 = arith.addi %pool, %pool_offset_256 : index
		%pool_offset_512 = arith.constant 512 : index
		%pool_addr_512 = arith.addi %pool, %pool_offset_512 : index
		%pool_offset_768 = arith.constant 768 : index
		%pool_addr_768 = arith.addi %pool, %pool_offset_768 : index
		%arg_2_core_offset_20 = arith.constant 20 : index
		%arg_2_core_20 = arith.addi %arg_2, %arg_2_core_offset_20 : index
		%arg_2_core_offset_276 = arith.constant 276 : index
		%arg_2_core_276 = arith.addi %arg_2, %arg_2_core_offset_276 : index
		%arg_2_core_offset_532 = arith.constant 532 : index
		%arg_2_core_532 = arith.addi %arg_2, %arg_2_core_offset_532 : index
		%arg_2_core_offset_788 = arith.constant 788 : index
		%arg_2_core_788 = arith.addi %arg_2, %arg_2_core_offset_788 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_256, %arg_0_core_512, %arg_0_core_768, %arg_2, %arg_2_core_256, %arg_2_core_512, %arg_2_core_768) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6, -7, -8]}
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_256, %arg_1_core_512, %arg_1_core_768, %pool_addr_0, %pool_addr_256, %pool_addr_512, %pool_addr_768) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-9, -10, -11, -12, -13, -14, -15, -16]}
		sdscbundle.sdsc_execute (%pool_addr_0, %pool_addr_256, %pool_addr_512, %pool_addr_768, %arg_2_core_20, %arg_2_core_276, %arg_2_core_532, %arg_2_core_788) {sdsc_filename="sdsc_2.json", "symbol_ids"=[-17, -18, -19, -20, -21, -22, -23, -24]}
		return
	}
}
