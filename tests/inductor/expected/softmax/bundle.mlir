module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_2048 = arith.constant 2048 : index
		%arg_0_core_2048 = arith.addi %arg_0, %arg_0_core_offset_2048 : index
		%arg_0_core_offset_4096 = arith.constant 4096 : index
		%arg_0_core_4096 = arith.addi %arg_0, %arg_0_core_offset_4096 : index
		%arg_0_core_offset_6144 = arith.constant 6144 : index
		%arg_0_core_6144 = arith.addi %arg_0, %arg_0_core_offset_6144 : index
		%arg_1_core_offset_2048 = arith.constant 2048 : index
		%arg_1_core_2048 = arith.addi %arg_1, %arg_1_core_offset_2048 : index
		%arg_1_core_offset_4096 = arith.constant 4096 : index
		%arg_1_core_4096 = arith.addi %arg_1, %arg_1_core_offset_4096 : index
		%arg_1_core_offset_6144 = arith.constant 6144 : index
		%arg_1_core_6144 = arith.addi %arg_1, %arg_1_core_offset_6144 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_2048, %arg_0_core_4096, %arg_0_core_6144) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4]}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_1.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_2.json"}
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_2048, %arg_0_core_4096, %arg_0_core_6144) {sdsc_filename="sdsc_3.json", "symbol_ids"=[-5, -6, -7, -8]}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_4.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_5.json"}
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_2048, %arg_1_core_4096, %arg_1_core_6144) {sdsc_filename="sdsc_6.json", "symbol_ids"=[-9, -10, -11, -12]}
		return
	}
}
