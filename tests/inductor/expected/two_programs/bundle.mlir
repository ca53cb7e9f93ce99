module {
	func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_2048 = arith.constant 2048 : index
		%arg_0_core_2048 = arith.addi %arg_0, %arg_0_core_offset_2048 : index
		%arg_0_core_offset_4096 = arith.constant 4096 : index
		%arg_0_core_4096 = arith.addi %arg_0, %arg_0_core_offset_4096 : index
		%arg_0_core_offset_6144 = arith.constant 6144 : index
		%arg_0_core_6144 = arith.addi %arg_0, %arg_0_core_offset_6144 : index
		%pool_offset_0 = arith.constant 0 : index
		%pool_addr_0 = arith.addi %pool, %pool_offset_0 : index
		%pool_offset_2048 = arith.constant 2048 : index
		%pool_addr_2048 = arith.addi %pool, %pool_offset_2048 : index
		%pool_offset_4096 = arith.constant 4096 : index
		%pool_addr_4096 = arith.addi %pool, %pool_offset_4096 : index
		%pool_offset_6144 = arith.constant 6144 : index
		%pool_addr_6144 = arith.addi %pool, %pool_offset_6144 : index
		%arg_0_core_offset_8192 = arith.constant 8192 : index
		%arg_0_core_8192 = arith.addi %arg_0, %arg_0_core_offset_8192 : index
		%pool_offset_16384 = arith.constant 16384 : index
		%pool_addr_16384 = arith.addi %pool, %pool_offset_16384 : index
		%pool_offset_24576 = arith.constant 24576 : index
		%pool_addr_24576 = arith.addi %pool, %pool_offset_24576 : index
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
		sdscbundle.sdsc_execute (%pool_addr_0, %pool_addr_2048, %pool_addr_4096, %pool_addr_6144) {sdsc_filename="sdsc_6.json", "symbol_ids"=[-9, -10, -11, -12]}
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_8192, %pool_addr_16384, %pool_addr_24576) {sdsc_filename="sdsc_7.json", "symbol_ids"=[-13, -14, -15, -16]}
		sdscbundle.sdsc_execute (%pool_addr_0, %pool_addr_2048, %pool_addr_4096, %pool_addr_6144, %pool_addr_16384) {sdsc_filename="sdsc_8.json", "symbol_ids"=[-17, -18, -19, -20, -21]}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_9.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_10.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_11.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_12.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_13.json"}
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_14.json"}
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_2048, %arg_1_core_4096, %arg_1_core_6144) {sdsc_filename="sdsc_15.json", "symbol_ids"=[-22, -23, -24, -25]}
		return
	}
}
