"""Kernels that misuse the language, by what is wrong in them; test_errors.py shows what each is told."""

# Statements in a kernel over A, B: float32[64, 32] and n: int32, launched as T.Kernel(4, threads=32) with index bx.
STATEMENTS = {
    # names
    "a_name_that_changes_in_a_loop": """
        total = 0.0
        for i in T.serial(4):
            total = total + A[i, 0]
        B[0, 0] = total
        """,
    "a_counter_that_changes_in_a_while_loop": """
        k = 0
        while A[k, 0] > 0.0:
            k += 1
        """,
    "a_value_from_a_loop_used_after_it": """
        for i in T.serial(4):
            last = A[i, 0]
        B[0, 0] = last
        """,
    "a_value_from_a_branch_used_after_it": """
        if bx == 0:
            k = 1
        else:
            k = 2
        B[k, 0] = 1.0
        """,
    "a_loop_index_used_after_the_loop": """
        for i in T.serial(4):
            B[i, 0] = 1.0
        B[i, 1] = 1.0
        """,
    "a_buffer_used_after_the_loop_that_allocates_it": """
        kept = []
        for i in T.serial(4):
            tile = T.alloc_local((4,), "float32")
            kept.append(tile)
        B[0, 0] = kept[0][0]
        """,
    "a_value_kept_in_a_list_after_its_loop": """
        kept = []
        for i in T.serial(4):
            kept.append(i)
        B[kept[0], 0] = 1.0
        """,
    "a_name_used_before_it_is_assigned": """
        B[0, 0] = later
        later = 1.0
        later = 2.0
        """,
    # expressions
    "the_truth_of_an_expression": """
        flag = bool([1 for i in (0, 1) if A[i, 0] > 1.0])
        """,
    "a_power": """
        B[0, 0] = A[0, 0] ** 2
        """,
    "bits_of_a_float": """
        B[0, 0] = A[0, 0] & 1
        """,
    "a_whole_buffer_as_a_value": """
        B[0, 0] = A + 1.0
        """,
    "a_whole_buffer_stored_in_an_element": """
        B[0, 0] = A
        """,
    "a_python_object_as_a_value": """
        B[0, 0] = A[0, 0] + {}
        """,
    "python_int_of_an_expression": """
        k = int(A[0, 0])
        """,
    "len_of_a_buffer": """
        k = len(A)
        """,
    "a_list_indexed_by_a_loop": """
        xs = [1, 2, 3]
        for i in T.serial(3):
            B[i, 0] = xs[i]
        """,
    "a_ternary_between_objects": """
        x = A if n > 0 else B
        """,
    "an_assert_on_an_expression": """
        assert n > 0, "n must be positive"
        """,
    "an_attribute_that_holds_an_expression": """
        T.state = A[0, 0]
        """,
    "one_value_for_two_names": """
        x, y = A[0, 0]
        """,
    "two_values_for_three_names": """
        x, y, z = A[0, 0], A[0, 1]
        """,
    # indexing
    "too_few_indices_in_a_store": """
        B[bx] = 1.0
        """,
    "too_many_indices": """
        B[0, 0] = A[0, 0, 0]
        """,
    "a_float_index": """
        B[0, 0] = A[A[0, 0], 0]
        """,
    "a_string_index": """
        B[0, 0] = A["x", 0]
        """,
    "a_slice_with_a_step": """
        T.copy(A[0:64:2, :], B[0:32, :])
        """,
    "an_empty_slice": """
        T.copy(A[8:8, :], B[8:8, :])
        """,
    "a_slice_that_is_assigned": """
        B[0:4, 0] = 1.0
        """,
    "a_second_element_of_a_variable": """
        x = T.alloc_var("int32", init=0)
        B[0, 0] = x[1]
        """,
    # loops
    "two_names_for_one_index": """
        for i, j in T.Parallel(4):
            B[i, j] = 1.0
        """,
    "one_name_for_two_indices": """
        for i in T.Parallel(4, 4):
            B[i, 0] = 1.0
        """,
    "a_loop_over_a_number": """
        for i in 8:
            B[i, 0] = 1.0
        """,
    "a_loop_over_a_buffer": """
        for x in A:
            B[0, 0] = x
        """,
    "a_float_bound": """
        for i in T.serial(n / 2):
            B[i, 0] = 1.0
        """,
    "a_step_of_0": """
        for i in range(0, 8, 0):
            B[i, 0] = 1.0
        """,
    "a_parallel_loop_over_nothing": """
        for i in T.Parallel(0):
            B[i, 0] = 1.0
        """,
    "negative_stages": """
        for i in T.Pipelined(4, num_stages=-1):
            B[i, 0] = 1.0
        """,
    "a_name_that_is_not_there": """
        for i in T.serial(4):
            B[i_, 0] = 1.0
        """,
    "a_pipelined_loop_in_a_pipelined_loop": """
        for i in T.Pipelined(4, num_stages=2):
            for j in T.Pipelined(4, num_stages=2):
                B[i, j] = 1.0
        """,
    "order_without_stage": """
        for i in T.Pipelined(4, num_stages=2, order=[0, 1]):
            B[i, 0] = 1.0
        """,
    "order_and_stage_of_different_length": """
        for i in T.Pipelined(4, num_stages=2, order=[0, 1], stage=[0]):
            B[i, 0] = 1.0
        """,
    "two_statements_in_one_place_of_the_order": """
        for i in T.Pipelined(4, num_stages=2, order=[0, 0], stage=[0, 1]):
            B[i, 0] = 1.0
        """,
    "break_in_a_parallel_loop": """
        for i in T.Parallel(4):
            if A[i, 0] > 0.0:
                break
        """,
    "continue_in_a_pipelined_loop": """
        for i in T.Pipelined(4, num_stages=2):
            if A[i, 0] > 0.0:
                continue
            B[i, 0] = 1.0
        """,
    "break_of_a_nest": """
        for i, j in T.grid(4, 4):
            if A[i, j] > 0.0:
                break
        """,
    "break_of_an_unrolled_loop_when_the_kernel_runs": """
        for i in [0, 1, 2]:
            if A[i, 0] > 0.0:
                break
        """,
    "a_vectorized_loop_of_unknown_extent": """
        for i in T.vectorized(n):
            B[0, i] = 1.0
        """,
    "unroll_both_ways": """
        for i in T.unroll(4, explicit=True, unroll_factor=2):
            B[0, i] = 1.0
        """,
    "else_after_a_loop": """
        for i in T.serial(4):
            B[i, 0] = 1.0
        else:
            B[0, 1] = 1.0
        """,
    "else_after_a_while_loop": """
        while n > 1:
            B[0, 0] = 1.0
        else:
            B[0, 1] = 1.0
        """,
    "return_in_a_branch": """
        if n > 4:
            return
        B[0, 0] = 1.0
        """,
    "yield_in_a_kernel": """
        yield B
        """,
    "walrus_in_a_condition": """
        if n > 1 and (k := n + 1) > 2:
            B[0, 0] = 1.0
        """,
    # kernels and memory
    "a_kernel_in_a_kernel": """
        with T.Kernel(2) as by:
            B[by, 0] = 1.0
        """,
    "a_thread_index_that_the_kernel_lacks": """
        ty = T.get_thread_binding(1)
        """,
    "a_shared_tile_of_unknown_size": """
        tile = T.alloc_shared((n, 32), "float32")
        """,
    "a_fragment_of_size_0": """
        tile = T.alloc_fragment((0, 32), "float32")
        """,
    "an_unknown_element_type": """
        tile = T.alloc_shared((4, 4), "float33")
        """,
    "an_unknown_scope": """
        tile = T.alloc_shared((4, 4), "float32", scope="shraed")
        """,
    "two_initial_values": """
        x = T.alloc_var("int32", 1, init=2)
        """,
    "a_tile_as_initial_value": """
        x = T.alloc_var("float32", init=A)
        """,
    "a_scope_of_another_function": """
        tile = T.alloc_shared((4, 4), "float32", scope="global")
        """,
    # tile ops
    "a_copy_of_different_shapes": """
        tile = T.alloc_shared((16, 32), "float32")
        T.copy(A[0:8, :], tile)
        """,
    "a_copy_between_two_elements": """
        T.copy(A[0, 0], B[0, 0])
        """,
    "a_copy_of_a_number": """
        T.copy(1.0, B)
        """,
    "a_copy_into_a_smaller_rank": """
        tile = T.alloc_shared((4, 16, 32), "float32")
        T.copy(A[0, 0], tile)
        """,
    "an_unknown_instruction": """
        T.copy(A, B, prefer_instruction="dma")
        """,
    "a_gemm_that_needs_a_transpose": """
        a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 32), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.gemm(a, b, c)
        """,
    "an_unknown_gemm_policy": """
        a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.gemm(a, b, c, policy="Triangle")
        """,
    "a_reduction_of_an_axis_that_is_not_there": """
        t, r = T.alloc_fragment((16, 32), "float32"), T.alloc_fragment((16,), "float32")
        T.reduce_sum(t, r, dim=2)
        """,
    "a_fill_with_a_buffer": """
        T.fill(B, A)
        """,
    "an_atomic_update_with_the_old_value": """
        T.atomic_add(B, 1.0, return_prev=True)
        """,
    "an_atomic_load_from_registers": """
        f = T.alloc_fragment((4, 4), "float32")
        x = T.atomic_load(f[0, 0])
        """,
    "an_atomic_update_of_three_neighbours": """
        T.atomic_addx2(B[0, 0:3], A[0, 0])
        """,
    "a_shuffle_of_seven_lanes": """
        x = T.shfl_xor(A[0, 0], 1, width=7)
        """,
    "a_warp_sum_of_bools": """
        x = T.warp_reduce_sum(A[0, 0] > 0)
        """,
    "a_call_of_no_function": """
        x = T.call_extern("float32", "f(x)", 1.0)
        """,
    "a_buffer_passed_to_a_function": """
        T.call_extern("void", "f", A)
        """,
    "a_pointer_to_a_value": """
        p = T.address_of(A[0, 0] + 1.0)
        """,
    "a_pointer_into_registers": """
        f = T.alloc_fragment((4, 4), "float32")
        p = T.access_ptr(f, "r")
        """,
    "a_pointer_without_a_known_use": """
        p = T.access_ptr(A, "x")
        """,
    # values
    "a_maximum_of_one_value": """
        B[0, 0] = T.max(A[0, 0])
        """,
    "bits_of_another_width": """
        x = T.reinterpret(A[0, 0], "int16")
        """,
    "ceildiv_of_floats": """
        x = T.ceildiv(A[0, 0], 2)
        """,
    "a_division_by_0": """
        x = T.floordiv(n, 0)
        """,
    "stochastic_rounding": """
        x = T.cast(A[0, 0], "float16", round="rs")
        """,
    "a_constant_out_of_range": """
        x = T.int8(300)
        """,
    "lanes_of_the_wrong_number": """
        x = T.float32x4(1.0, 2.0)
        """,
    "infinity_of_an_integer_type": """
        x = T.infinity("int32")
        """,
    # annotations and names of T
    "a_false_assumption": """
        T.assume(3 > 4)
        """,
    "a_panel_of_size_0": """
        T.use_swizzle(0)
        """,
    "a_layout_of_another_shape": """
        tile = T.alloc_shared((16, 32), "float32")
        T.annotate_layout({tile: T.Layout((8, 8), lambda i, j: (i, j))})
        """,
    "a_safe_value_on_chip": """
        tile = T.alloc_shared((16, 32), "float32")
        T.annotate_safe_value({tile: 1.0})
        """,
    "a_rounding_mode": """
        x = T.round(A[0, 0], "up")
        """,
    "a_reducer_that_has_not_begun": """
        acc = T.alloc_reducer((4,), "float32")
        for i in T.Parallel(4):
            T.reducer_update(acc[i], 1.0)
        """,
    "a_reducer_that_is_read": """
        acc = T.alloc_reducer((4,), "float32")
        T.reducer_init(acc)
        B[0, 0] = acc[0]
        """,
    "a_reducer_of_bools": """
        acc = T.alloc_reducer((4,), "bool")
        """,
    "an_unknown_generator": """
        T.rng_init(1, generator="curandStateXORWOW_t")
        """,
    "random_numbers_without_a_seed": """
        x = T.rng_rand()
        """,
    "a_reduction_over_threads_without_a_scope": """
        own = T.alloc_local((1,), "float32")
        T.tvm_thread_allreduce(1, 1.0, True, own[0], T.get_thread_binding())
        """,
    "a_print_by_a_thread_that_is_not_there": """
        T.print(A, warp_group_id=1)
        """,
    "a_print_of_a_vector": """
        T.print(T.Broadcast(T.float32(1), 4))
        """,
    "words_of_registers": """
        x = T.lds32(A[0, 0])
        """,
    "a_lane_that_a_vector_lacks": """
        x = T.extract_lane(T.Broadcast(A[0, 0], 4), 4)
        """,
    "a_named_barrier": """
        T.sync_threads(16, 32)
        """,
    "a_block_that_writes_what_it_does_not_declare": """
        with T.sblock("copy"):
            T.writes(A)
            B[0, 0] = A[0, 0]
        """,
    "a_text_in_place_of_a_condition": """
        T.device_assert("A is positive")
        """,
    "a_barrier_for_other_memory": """
        T.tvm_storage_sync("global")
        """,
    "a_name_that_the_language_lacks": """
        T.allocshared((4, 4), "float32")
        """,
    "a_missing_argument": """
        T.copy(A)
        """,
}

# Whole texts.
FUNCTIONS = {
    "a_tensor_that_match_buffer_gets": """
        @T.prim_func
        def f(A: T.Tensor((4,), "float32")):
            B = T.match_buffer(A, (4,), "float32")
            with T.Kernel(1):
                B[0] = 1.0
        """,
    "a_parameter_without_annotation": """
        @T.prim_func
        def main(A, n: T.int32):
            with T.Kernel(1) as bx:
                A[0] = 1.0
        """,
    "a_parameter_with_a_wrong_annotation": """
        @T.prim_func
        def main(A: "float32"):
            with T.Kernel(1) as bx:
                A[0] = 1.0
        """,
    "a_tensor_on_chip_as_parameter": """
        @T.prim_func
        def main(A: T.SharedBuffer((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = 1.0
        """,
    "variadic_parameters": """
        @T.prim_func
        def main(*tensors):
            with T.Kernel(1) as bx:
                T.clear(tensors[0])
        """,
    "a_negative_extent": """
        def make():
            return T.Tensor((4, -1), "float32")
        make()
        """,
    "a_tensor_over_a_pointer": """
        def make():
            return T.Tensor((4, 4), "float32", data=1)
        make()
        """,
    "strides_of_another_rank": """
        def make():
            return T.StridedTensor((4, 4), (4,), "float32")
        make()
        """,
    "no_kernel": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            x = A.shape[0]
        """,
    "a_prim_func_that_returns": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = 1.0
            return A
        """,
    "a_copy_outside_the_kernel": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            T.copy(A, B)
            with T.Kernel(1) as bx:
                A[0] = 1.0
        """,
    "an_allocation_outside_the_kernel": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            tile = T.alloc_shared((4,), "float32")
            with T.Kernel(1) as bx:
                T.copy(A, tile)
        """,
    "a_load_outside_the_kernel": """
        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            n = A[0] + 1
            with T.Kernel(n) as bx:
                A[bx] = 0
        """,
    "a_copy_outside_any_function": """
        def main():
            T.copy(1, 2)
        main()
        """,
    "a_size_that_no_tensor_has": """
        m = T.dynamic("m")
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(m) as bx:
                A[0] = 1.0
        """,
    "a_dynamic_size_without_a_name": """
        def make():
            return T.dynamic("2 m")
        make()
        """,
    "two_thousand_threads": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=2000) as bx:
                A[0] = 1.0
        """,
    "a_grid_of_floats": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(4 / 2) as bx:
                A[0] = 1.0
        """,
    "four_grid_axes": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, 2, 3, 4):
                A[0] = 1.0
        """,
    "another_number_of_grid_names": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, 2, 3) as (bx, by):
                A[0] = 1.0
        """,
    "a_cluster_of_half_a_block": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(4, cluster_dims=0.5) as bx:
                A[0] = 1.0
        """,
    "a_kernel_in_a_run_time_branch": """
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), n: T.int32):
            if n > 2:
                with T.Kernel(4) as bx:
                    A[bx] = 1.0
        """,
    "a_fault_in_a_macro": """
        @T.macro
        def put(X, value):
            X[0, 0] = value
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                put(A, 1.0)
        """,
    "a_fault_in_a_plain_function": """
        def largest(a, b):
            return a if a > b else b
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = largest(A[1], A[2])
        """,
    "a_macro_that_returns_from_a_loop": """
        @T.macro
        def find(X):
            for i in T.serial(4):
                return X[i]
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = find(A)
        """,
}
