# cython: language_level=3, boundscheck=False, wraparound=False
"""Calls an entry of the packed ABI with torch tensors, the stream given or asked for; compiled on first use."""

from cpython.bool cimport PyBool_Check
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef extern from *:
    """
    #include <string.h>
    #include <tvm/ffi/c_api.h>
    #include <tvm/ffi/extra/c_env_api.h>

    #define TILE_ON_STACK 32

    typedef int (*tile_entry_t)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

    static inline TVMFFIErrorCell* tile_error_cell(TVMFFIObjectHandle error) {
      return (TVMFFIErrorCell*)((char*)error + sizeof(TVMFFIObject));
    }
    static inline const TVMFFIByteArray* tile_string(TVMFFIObjectHandle text) {
      return (const TVMFFIByteArray*)((char*)text + sizeof(TVMFFIObject));
    }
    static inline void tile_set_index(TVMFFIAny* slot, int32_t index) { slot->type_index = index; }
    static inline void tile_set_pointer(TVMFFIAny* slot, void* pointer) { slot->v_ptr = pointer; }
    static inline void tile_set_int(TVMFFIAny* slot, int64_t value) { slot->v_int64 = value; }
    static inline void tile_set_float(TVMFFIAny* slot, double value) { slot->v_float64 = value; }
    static inline int32_t tile_index(const TVMFFIAny* slot) { return slot->type_index; }
    static inline TVMFFIObjectHandle tile_object(const TVMFFIAny* slot) { return slot->v_obj; }
    static inline int32_t tile_device_type(const DLTensor* tensor) { return tensor->device.device_type; }
    static inline int32_t tile_device_id(const DLTensor* tensor) { return tensor->device.device_id; }
    static inline int tile_to_tensor(const DLPackExchangeAPI* api, void* object, DLTensor* out) {
      return api->dltensor_from_py_object_no_sync(object, out);
    }
    static inline int tile_to_object(const DLPackExchangeAPI* api, DLManagedTensorVersioned* tensor, void** out) {
      return api->managed_tensor_to_py_object_no_sync(tensor, out);
    }
    static inline int tile_work_stream(const DLPackExchangeAPI* api, int32_t type, int32_t id, void** out) {
      return api->current_work_stream((DLDeviceType)type, id, out);
    }
    static inline int tile_lend_allocator(const DLPackExchangeAPI* api, DLPackManagedTensorAllocator* before) {
      return TVMFFIEnvSetDLPackManagedTensorAllocator(api->managed_tensor_allocator, 0, before);
    }
    static inline TVMFFIObjectHandle tile_item(TVMFFIObjectHandle get, TVMFFIObjectHandle array, int64_t place) {
      TVMFFIAny args[2], result;
      memset(args, 0, sizeof args);
      memset(&result, 0, sizeof result);
      args[0].type_index = kTVMFFIArray;
      args[0].v_obj = (TVMFFIObject*)array;
      args[1].type_index = kTVMFFIInt;
      args[1].v_int64 = place;
      return TVMFFIFunctionCall(get, args, 2, &result) == 0 ? result.v_obj : NULL;
    }
    """
    ctypedef struct TVMFFIAny:
        pass
    ctypedef struct DLTensor:
        pass
    ctypedef struct DLManagedTensorVersioned:
        pass
    ctypedef struct DLPackExchangeAPI:
        pass
    ctypedef struct TVMFFIByteArray:
        const char* data
        size_t size
    ctypedef struct TVMFFIErrorCell:
        TVMFFIByteArray kind
        TVMFFIByteArray message
        void* extra_context
    ctypedef void* TVMFFIObjectHandle
    ctypedef void* DLPackManagedTensorAllocator
    ctypedef int (*tile_entry_t)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) noexcept nogil
    enum:
        TILE_ON_STACK, kTVMFFINone, kTVMFFIInt, kTVMFFIBool, kTVMFFIFloat, kTVMFFIDLTensorPtr, kTVMFFIRawStr
        kTVMFFITensor, kTVMFFIArray, kTVMFFIMap, kTVMFFIBigInt, kTVMFFIOpaquePyObject, kDLCPU
    TVMFFIErrorCell* tile_error_cell(TVMFFIObjectHandle)
    const TVMFFIByteArray* tile_string(TVMFFIObjectHandle)
    void tile_set_index(TVMFFIAny*, int32_t)
    void tile_set_pointer(TVMFFIAny*, void*)
    void tile_set_int(TVMFFIAny*, int64_t)
    void tile_set_float(TVMFFIAny*, double)
    int32_t tile_index(const TVMFFIAny*)
    TVMFFIObjectHandle tile_object(const TVMFFIAny*)
    int32_t tile_device_type(const DLTensor*)
    int32_t tile_device_id(const DLTensor*)
    int tile_to_tensor(const DLPackExchangeAPI*, void*, DLTensor*) except? -2
    int tile_to_object(const DLPackExchangeAPI*, DLManagedTensorVersioned*, void**) except? -2
    int tile_work_stream(const DLPackExchangeAPI*, int32_t, int32_t, void**) except? -2
    int tile_lend_allocator(const DLPackExchangeAPI*, DLPackManagedTensorAllocator*)
    TVMFFIObjectHandle tile_item(TVMFFIObjectHandle, TVMFFIObjectHandle, int64_t)
    int TVMFFIEnvSetStream(int32_t, int32_t, void*, void**)
    int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator, int, DLPackManagedTensorAllocator*)
    int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle, DLManagedTensorVersioned**)
    int TVMFFIFunctionGetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle*)
    void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle*)
    int TVMFFIObjectDecRef(TVMFFIObjectHandle)


class Refused(Exception):
    """What the entry raised: (kind, message, context)."""


class Unreadable(Exception):
    """An argument that torch would not hand over."""


cdef class Entry:
    """An entry of a loaded library.

    Args:
        address: of the entry.
        outputs: how many tensors it returns.
        device_type: DLPack's number of the kind of device that it runs on.
        torch: the module.
    """

    cdef tile_entry_t entry
    cdef int outputs
    cdef int32_t device_type
    cdef const DLPackExchangeAPI* api
    cdef object tensor
    cdef object current_device
    cdef TVMFFIObjectHandle get_item
    cdef readonly bint takes_stream

    def __init__(self, uintptr_t address, int outputs, int device_type, torch):
        cdef TVMFFIByteArray name
        self.entry = <tile_entry_t><void*>address
        self.outputs = outputs
        self.device_type = device_type
        self.tensor = torch.Tensor
        self.current_device = torch.cuda.current_device
        self.takes_stream = True
        capsule = torch.Tensor.__dlpack_c_exchange_api__
        self.api = <const DLPackExchangeAPI*>PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
        text = b"ffi.ArrayGetItem"
        name.data = text
        name.size = len(text)
        if TVMFFIFunctionGetGlobal(&name, &self.get_item) != 0:
            raise Refused(*_raised())

    def __call__(self, *args, stream=None):
        """Runs the entry on `stream` (an address as int, or an object with `cuda_stream`), or on the current one."""
        cdef int count = len(args)
        cdef TVMFFIAny few[TILE_ON_STACK]
        cdef DLTensor few_tensors[TILE_ON_STACK]
        cdef TVMFFIAny* slots = few
        cdef DLTensor* tensors = few_tensors
        if count <= TILE_ON_STACK:
            return self.call(args, count, slots, tensors, stream)
        slots = <TVMFFIAny*>malloc(count * sizeof(TVMFFIAny))
        tensors = <DLTensor*>malloc(count * sizeof(DLTensor))
        try:
            if slots == NULL or tensors == NULL:
                raise MemoryError()
            return self.call(args, count, slots, tensors, stream)
        finally:
            free(slots)
            free(tensors)

    cdef object call(self, tuple args, int count, TVMFFIAny* slots, DLTensor* tensors, object stream):
        cdef TVMFFIAny result
        cdef DLPackManagedTensorAllocator before = NULL
        cdef void* work = NULL
        cdef void* work_before = NULL
        cdef int32_t device = -1
        cdef int status
        memset(slots, 0, count * sizeof(TVMFFIAny))
        memset(&result, 0, sizeof(TVMFFIAny))
        for place in range(count):
            self.fill(args[place], &slots[place], &tensors[place])
            if device < 0 and tile_index(&slots[place]) == kTVMFFIDLTensorPtr:
                if tile_device_type(&tensors[place]) == self.device_type:
                    device = tile_device_id(&tensors[place])
        if self.device_type != kDLCPU:
            if device < 0:
                device = self.current_device()
            work = self.stream(stream, device)
            TVMFFIEnvSetStream(self.device_type, device, work, &work_before)
        if self.outputs:
            tile_lend_allocator(self.api, &before)
        with nogil:
            status = self.entry(NULL, slots, count, &result)
        if self.outputs:
            TVMFFIEnvSetDLPackManagedTensorAllocator(before, 0, NULL)
        if self.device_type != kDLCPU:
            TVMFFIEnvSetStream(self.device_type, device, work_before, NULL)
        if status != 0:
            raise Refused(*_raised())
        return self.returned(&result) if self.outputs else None

    cdef int fill(self, object value, TVMFFIAny* slot, DLTensor* tensor) except -1:
        cdef int overflow = 0
        cdef long long number
        if isinstance(value, self.tensor):
            try:
                if tile_to_tensor(self.api, <void*>value, tensor) != 0:
                    raise BufferError("torch hands over no such tensor")
            except Exception as error:
                raise Unreadable(str(error)) from None
            tile_set_index(slot, kTVMFFIDLTensorPtr)
            tile_set_pointer(slot, tensor)
        elif value is None:
            tile_set_index(slot, kTVMFFINone)
        elif PyBool_Check(value):
            tile_set_index(slot, kTVMFFIBool)
            tile_set_int(slot, value is True)
        elif PyLong_Check(value):
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            tile_set_index(slot, kTVMFFIBigInt if overflow else kTVMFFIInt)
            tile_set_int(slot, 0 if overflow else number)
        elif PyFloat_Check(value):
            tile_set_index(slot, kTVMFFIFloat)
            tile_set_float(slot, PyFloat_AS_DOUBLE(value))
        else:
            # only what it is: the entry takes none of these, and says so
            tile_set_index(slot, _index_of(value))
        return 0

    cdef void* stream(self, object stream, int32_t device) except? NULL:
        cdef void* work = NULL
        if stream is None:
            if tile_work_stream(self.api, self.device_type, device, &work) != 0:
                raise BufferError("torch tells no current stream")
            return work
        return <void*><uintptr_t>(stream if isinstance(stream, int) else stream.cuda_stream)

    cdef object returned(self, TVMFFIAny* result):
        cdef TVMFFIObjectHandle array = tile_object(result)
        if tile_index(result) == kTVMFFITensor:
            return self.torch_tensor(array)
        try:
            return [self.torch_tensor(tile_item(self.get_item, array, place)) for place in range(self.outputs)]
        finally:
            TVMFFIObjectDecRef(array)

    cdef object torch_tensor(self, TVMFFIObjectHandle tensor):
        cdef DLManagedTensorVersioned* managed = NULL
        cdef void* made = NULL
        if tensor == NULL or TVMFFITensorToDLPackVersioned(tensor, &managed) != 0:
            raise Refused(*_raised())
        TVMFFIObjectDecRef(tensor)
        if tile_to_object(self.api, managed, &made) != 0:
            raise BufferError("torch takes no such tensor")
        found = <object>made
        _release(made)
        return found


cdef extern from "Python.h":
    void Py_DECREF(PyObject*)


cdef void _release(void* owned):
    Py_DECREF(<PyObject*>owned)


cdef int32_t _index_of(object value):
    if isinstance(value, str):
        return kTVMFFIRawStr
    if isinstance(value, (list, tuple)):
        return kTVMFFIArray
    return kTVMFFIMap if isinstance(value, dict) else kTVMFFIOpaquePyObject


cdef tuple _raised():
    """(kind, message, context) of the error that this thread raised."""
    cdef TVMFFIObjectHandle error = NULL
    cdef TVMFFIErrorCell* cell
    cdef const TVMFFIByteArray* text
    TVMFFIErrorMoveFromRaised(&error)
    if error == NULL:
        return "InternalError", "the entry failed and said nothing", ""
    cell = tile_error_cell(error)
    kind, message, context = _text(&cell.kind), _text(&cell.message), ""
    if cell.extra_context != NULL:
        text = tile_string(cell.extra_context)
        context = _text(text)
    TVMFFIObjectDecRef(error)
    return kind, message, context


cdef str _text(const TVMFFIByteArray* text):
    return text.data[:text.size].decode("utf-8", "replace")
