module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_524288 = arith.constant 524288 : index
		%arg_0_core_524288 = arith.addi %arg_0, %arg_0_core_offset_524288 : index
		%arg_0_core_offset_262144 = arith.constant 262144 : index
		%arg_0_core_262144 = arith.addi %arg_0, %arg_0_core_offset_262144 : index
		%arg_0_core_offset_786432 = arith.constant 786432 : index
		%arg_0_core_786432 = arith.addi %arg_0, %arg_0_core_offset_786432 : index
		%arg_1_core_offset_128 = arith.constant 128 : index
		%arg_1_core_128 = arith.addi %arg_1, %arg_1_core_offset_128 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_524288, %arg_0_core_262144, %arg_0_core_786432, %arg_1, %arg_1_core_128) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6]}
		return
	}
}
