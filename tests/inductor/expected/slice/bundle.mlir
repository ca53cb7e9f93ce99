module {
	func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%pool_offset_0 = arith.constant 0 : index
		%pool_addr_0 = arith.addi %pool, %pool_offset_0 : index
		%pool_offset_640 = arith.constant 640 : index
		%pool_addr_640 = arith.addi %pool, %pool_offset_640 : index
		sdscbundle.sdsc_execute (%arg_0, %pool_addr_0) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
		sdscbundle.sdsc_execute (%pool_addr_640, %arg_1) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-3, -4]}
		return
	}
}
