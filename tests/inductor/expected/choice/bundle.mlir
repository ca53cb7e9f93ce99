module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_256 = arith.constant 256 : index
		%arg_0_core_256 = arith.addi %arg_0, %arg_0_core_offset_256 : index
		%arg_0_core_offset_512 = arith.constant 512 : index
		%arg_0_core_512 = arith.addi %arg_0, %arg_0_core_offset_512 : index
		%arg_1_core_offset_256 = arith.constant 256 : index
		%arg_1_core_256 = arith.addi %arg_1, %arg_1_core_offset_256 : index
		%arg_1_core_offset_512 = arith.constant 512 : index
		%arg_1_core_512 = arith.addi %arg_1, %arg_1_core_offset_512 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_256, %arg_0_core_512) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3]}
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_256, %arg_0_core_512) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-4, -5, -6]}
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_256, %arg_0_core_512, %arg_1, %arg_1_core_256, %arg_1_core_512) {sdsc_filename="sdsc_2.json", "symbol_ids"=[-7, -8, -9, -10, -11, -12]}
		return
	}
}
