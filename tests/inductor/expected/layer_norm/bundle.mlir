module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %arg_3_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_3 = sdscbundle.input_arg_extract value from %arg_3_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_1024 = arith.constant 1024 : index
		%arg_0_core_1024 = arith.addi %arg_0, %arg_0_core_offset_1024 : index
		%arg_0_core_offset_2048 = arith.constant 2048 : index
		%arg_0_core_2048 = arith.addi %arg_0, %arg_0_core_offset_2048 : index
		%arg_0_core_offset_3072 = arith.constant 3072 : index
		%arg_0_core_3072 = arith.addi %arg_0, %arg_0_core_offset_3072 : index
		%arg_3_core_offset_1024 = arith.constant 1024 : index
		%arg_3_core_1024 = arith.addi %arg_3, %arg_3_core_offset_1024 : index
		%arg_3_core_offset_2048 = arith.constant 2048 : index
		%arg_3_core_2048 = arith.addi %arg_3, %arg_3_core_offset_2048 : index
		%arg_3_core_offset_3072 = arith.constant 3072 : index
		%arg_3_core_3072 = arith.addi %arg_3, %arg_3_core_offset_3072 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_1024, %arg_0_core_2048, %arg_0_core_3072) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4]}
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_1024, %arg_0_core_2048, %arg_0_core_3072) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-5, -6, -7, -8]}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_2.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_3.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_4.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_5.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_6.json"}
		sdscbundle.sdsc_execute (%arg_1) {sdsc_filename="sdsc_7.json", "symbol_ids"=[-9]}
		sdscbundle.sdsc_execute (%arg_2, %arg_3, %arg_3_core_1024, %arg_3_core_2048, %arg_3_core_3072) {sdsc_filename="sdsc_8.json", "symbol_ids"=[-10, -11, -12, -13, -14]}
		return
	}
}
