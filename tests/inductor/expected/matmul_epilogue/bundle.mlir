module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %arg_3_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_3 = sdscbundle.input_arg_extract value from %arg_3_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_2048 = arith.constant 2048 : index
		%arg_0_core_2048 = arith.addi %arg_0, %arg_0_core_offset_2048 : index
		%arg_0_core_offset_4096 = arith.constant 4096 : index
		%arg_0_core_4096 = arith.addi %arg_0, %arg_0_core_offset_4096 : index
		%arg_0_core_offset_6144 = arith.constant 6144 : index
		%arg_0_core_6144 = arith.addi %arg_0, %arg_0_core_offset_6144 : index
		%arg_3_core_offset_2048 = arith.constant 2048 : index
		%arg_3_core_2048 = arith.addi %arg_3, %arg_3_core_offset_2048 : index
		%arg_3_core_offset_4096 = arith.constant 4096 : index
		%arg_3_core_4096 = arith.addi %arg_3, %arg_3_core_offset_4096 : index
		%arg_3_core_offset_6144 = arith.constant 6144 : index
		%arg_3_core_6144 = arith.addi %arg_3, %arg_3_core_offset_6144 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_2048, %arg_0_core_4096, %arg_0_core_6144, %arg_1) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5]}
		sdscbundle.sdsc_execute (%arg_2) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-6]}
		sdscbundle.sdsc_execute (%arg_3, %arg_3_core_2048, %arg_3_core_4096, %arg_3_core_6144) {sdsc_filename="sdsc_2.json", "symbol_ids"=[-7, -8, -9, -10]}
		return
	}
}
