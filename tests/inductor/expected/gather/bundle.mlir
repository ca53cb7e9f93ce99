module {
	func.func @sdsc_bundle(%arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>) {
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1_core_offset_128 = arith.constant 128 : index
		%arg_1_core_128 = arith.addi %arg_1, %arg_1_core_offset_128 : index
		%arg_2_core_offset_128 = arith.constant 128 : index
		%arg_2_core_128 = arith.addi %arg_2, %arg_2_core_offset_128 : index
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_128, %arg_0, %arg_2, %arg_2_core_128) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5]}
		return
	}
}
