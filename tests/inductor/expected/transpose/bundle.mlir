module {
	func.func @sdsc_bundle(%arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>) {
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		sdscbundle.sdsc_execute (%arg_1) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1]}
		sdscbundle.sdsc_execute (%arg_0, %arg_2) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-2, -3]}
		return
	}
}
