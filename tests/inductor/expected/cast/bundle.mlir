module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_1024 = arith.constant 1024 : index
		%arg_0_core_1024 = arith.addi %arg_0, %arg_0_core_offset_1024 : index
		%arg_0_core_offset_2048 = arith.constant 2048 : index
		%arg_0_core_2048 = arith.addi %arg_0, %arg_0_core_offset_2048 : index
		%arg_0_core_offset_3072 = arith.constant 3072 : index
		%arg_0_core_3072 = arith.addi %arg_0, %arg_0_core_offset_3072 : index
		%arg_1_core_offset_1024 = arith.constant 1024 : index
		%arg_1_core_1024 = arith.addi %arg_1, %arg_1_core_offset_1024 : index
		%arg_1_core_offset_2048 = arith.constant 2048 : index
		%arg_1_core_2048 = arith.addi %arg_1, %arg_1_core_offset_2048 : index
		%arg_1_core_offset_3072 = arith.constant 3072 : index
		%arg_1_core_3072 = arith.addi %arg_1, %arg_1_core_offset_3072 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_1024, %arg_0_core_2048, %arg_0_core_3072) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4]}
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_1024, %arg_1_core_2048, %arg_1_core_3072) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-5, -6, -7, -8]}
		return
	}
}
