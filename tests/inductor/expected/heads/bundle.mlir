module {
	func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_8192 = arith.constant 8192 : index
		%arg_0_core_8192 = arith.addi %arg_0, %arg_0_core_offset_8192 : index
		%arg_0_core_offset_16384 = arith.constant 16384 : index
		%arg_0_core_16384 = arith.addi %arg_0, %arg_0_core_offset_16384 : index
		%arg_0_core_offset_24576 = arith.constant 24576 : index
		%arg_0_core_24576 = arith.addi %arg_0, %arg_0_core_offset_24576 : index
		%pool_offset_0 = arith.constant 0 : index
		%pool_addr_0 = arith.addi %pool, %pool_offset_0 : index
		%pool_offset_131072 = arith.constant 131072 : index
		%pool_addr_131072 = arith.addi %pool, %pool_offset_131072 : index
		%pool_offset_262144 = arith.constant 262144 : index
		%pool_addr_262144 = arith.addi %pool, %pool_offset_262144 : index
		%pool_offset_393216 = arith.constant 393216 : index
		%pool_addr_393216 = arith.addi %pool, %pool_offset_393216 : index
		%arg_1_core_offset_131072 = arith.constant 131072 : index
		%arg_1_core_131072 = arith.addi %arg_1, %arg_1_core_offset_131072 : index
		%arg_1_core_offset_262144 = arith.constant 262144 : index
		%arg_1_core_262144 = arith.addi %arg_1, %arg_1_core_offset_262144 : index
		%arg_1_core_offset_393216 = arith.constant 393216 : index
		%arg_1_core_393216 = arith.addi %arg_1, %arg_1_core_offset_393216 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_8192, %arg_0_core_16384, %arg_0_core_24576, %pool_addr_0, %pool_addr_131072, %pool_addr_262144, %pool_addr_393216) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6, -7, -8]}
		sdscbundle.sdsc_execute (%pool_addr_0, %pool_addr_131072, %pool_addr_262144, %pool_addr_393216, %arg_1, %arg_1_core_131072, %arg_1_core_262144, %arg_1_core_393216) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-9, -10, -11, -12, -13, -14, -15, -16]}
		return
	}
}
