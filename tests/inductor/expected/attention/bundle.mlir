module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %arg_3_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_3 = sdscbundle.input_arg_extract value from %arg_3_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_17920 = arith.constant 17920 : index
		%arg_0_core_17920 = arith.addi %arg_0, %arg_0_core_offset_17920 : index
		%arg_0_core_offset_8960 = arith.constant 8960 : index
		%arg_0_core_8960 = arith.addi %arg_0, %arg_0_core_offset_8960 : index
		%arg_0_core_offset_26880 = arith.constant 26880 : index
		%arg_0_core_26880 = arith.addi %arg_0, %arg_0_core_offset_26880 : index
		%arg_1_core_offset_11520 = arith.constant 11520 : index
		%arg_1_core_11520 = arith.addi %arg_1, %arg_1_core_offset_11520 : index
		%arg_2_core_offset_11520 = arith.constant 11520 : index
		%arg_2_core_11520 = arith.addi %arg_2, %arg_2_core_offset_11520 : index
		%arg_3_core_offset_17920 = arith.constant 17920 : index
		%arg_3_core_17920 = arith.addi %arg_3, %arg_3_core_offset_17920 : index
		%arg_3_core_offset_8960 = arith.constant 8960 : index
		%arg_3_core_8960 = arith.addi %arg_3, %arg_3_core_offset_8960 : index
		%arg_3_core_offset_26880 = arith.constant 26880 : index
		%arg_3_core_26880 = arith.addi %arg_3, %arg_3_core_offset_26880 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_17920, %arg_0_core_8960, %arg_0_core_26880, %arg_1, %arg_1_core_11520, %arg_2, %arg_2_core_11520, %arg_3, %arg_3_core_17920, %arg_3_core_8960, %arg_3_core_26880) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12]}
		return
	}
}
