module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_640 = arith.constant 640 : index
		%arg_0_core_640 = arith.addi %arg_0, %arg_0_core_offset_640 : index
		%arg_0_core_offset_1280 = arith.constant 1280 : index
		%arg_0_core_1280 = arith.addi %arg_0, %arg_0_core_offset_1280 : index
		%arg_0_core_offset_1920 = arith.constant 1920 : index
		%arg_0_core_1920 = arith.addi %arg_0, %arg_0_core_offset_1920 : index
		%arg_1_core_offset_640 = arith.constant 640 : index
		%arg_1_core_640 = arith.addi %arg_1, %arg_1_core_offset_640 : index
		%arg_1_core_offset_1280 = arith.constant 1280 : index
		%arg_1_core_1280 = arith.addi %arg_1, %arg_1_core_offset_1280 : index
		%arg_1_core_offset_1920 = arith.constant 1920 : index
		%arg_1_core_1920 = arith.addi %arg_1, %arg_1_core_offset_1920 : index
		%arg_2_core_offset_640 = arith.constant 640 : index
		%arg_2_core_640 = arith.addi %arg_2, %arg_2_core_offset_640 : index
		%arg_2_core_offset_1280 = arith.constant 1280 : index
		%arg_2_core_1280 = arith.addi %arg_2, %arg_2_core_offset_1280 : index
		%arg_2_core_offset_1920 = arith.constant 1920 : index
		%arg_2_core_1920 = arith.addi %arg_2, %arg_2_core_offset_1920 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_640, %arg_0_core_1280, %arg_0_core_1920, %arg_1, %arg_1_core_640, %arg_1_core_1280, %arg_1_core_1920) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6, -7, -8]}
		sdscbundle.sdsc_execute (%arg_2, %arg_2_core_640, %arg_2_core_1280, %arg_2_core_1920) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-9, -10, -11, -12]}
		return
	}
}
