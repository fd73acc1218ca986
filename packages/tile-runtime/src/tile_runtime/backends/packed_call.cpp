// Calls an entry of the packed ABI with torch tensors: arguments in, new torch tensors out. Compiled on first use.
//
// It is plain CPython and tvm-ffi's C ABI. An outcome that is not the plain one (an argument of another kind, a failed check) goes to
// Python.
#include "torch_tensors.h"

#include <structmember.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((noinline, cold))

namespace {

typedef int (*entry_t)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

constexpr int ON_STACK = 32;  // arguments

PyObject* text_of(const TVMFFIByteArray* text) { return PyUnicode_DecodeUTF8(text->data, text->size, "replace"); }

TVMFFIObjectHandle get_item = nullptr;  // ffi.ArrayGetItem

struct Entry {
  PyObject_HEAD
  entry_t address;
  int outputs;
  int32_t device_type;
  char takes_stream;
  int lazy_count;
  int* lazy;           // places of the arguments whose negative bit is asked for
  PyObject* explain;   // (kind, message, context, args) → the exception to raise
  PyObject* other;     // called in place of the entry with arguments that are no torch tensors or numbers, or None
  PyObject* library;   // stays loaded
};

// As `raise error from None` does; NULL passes for one that is raised already.
COLD PyObject* raised(PyObject* error) {
  if (!error) return nullptr;
  PyException_SetCause(error, nullptr);
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF(error);
  return nullptr;
}

COLD PyObject* raise(Entry* self, const char* kind, PyObject* message, PyObject* args) {
  return raised(PyObject_CallFunction(self->explain, "sOsO", kind, message, "", args));
}

// The error that the entry left.
COLD PyObject* failed(Entry* self, PyObject* args) {
  TVMFFIObjectHandle left = nullptr;
  if (PyErr_Occurred()) return nullptr;
  TVMFFIErrorMoveFromRaised(&left);
  if (!left) return PyErr_Format(PyExc_RuntimeError, "the entry failed and said nothing");
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((char*)left + sizeof(TVMFFIObject));
  TVMFFIByteArray none = {"", 0};
  const TVMFFIByteArray* context = &none;
  if (cell->extra_context) context = (const TVMFFIByteArray*)((char*)cell->extra_context + sizeof(TVMFFIObject));
  PyObject *kind = text_of(&cell->kind), *message = text_of(&cell->message), *more = text_of(context), *error = nullptr;
  if (kind && message && more) error = PyObject_CallFunctionObjArgs(self->explain, kind, message, more, args, nullptr);
  Py_XDECREF(kind);
  Py_XDECREF(message);
  Py_XDECREF(more);
  TVMFFIObjectDecRef(left);
  return raised(error);
}

// The BufferError, or whatever torch raised, as text.
COLD PyObject* unreadable(Entry* self, PyObject* args) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* text = value ? PyObject_Str(value) : PyUnicode_FromString("torch hands over no such tensor");
  PyErr_Clear();
  if (text) raise(self, "BufferError", text, args);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return nullptr;
}

// Only what it is: the entry takes none of these, and says so.
COLD int32_t index_of(PyObject* value) {
  if (PyUnicode_Check(value)) return kTVMFFIRawStr;
  if (PyList_Check(value) || PyTuple_Check(value)) return kTVMFFIArray;
  return PyDict_Check(value) ? kTVMFFIMap : kTVMFFIOpaquePyObject;
}

enum Filled { FILLED, OTHER, UNREADABLE };

// An argument that is no tensor of torch's own two types.
Filled fill_other(Entry* self, PyObject* value, TVMFFIAny* slot, DLTensor* tensor) {
  slot->v_int64 = 0;
  if (value == Py_None) {
    slot->type_index = kTVMFFINone;
  } else if (PyBool_Check(value)) {
    slot->type_index = kTVMFFIBool;
    slot->v_int64 = value == Py_True;
  } else if (PyLong_Check(value)) {
    int overflow = 0;
    slot->v_int64 = PyLong_AsLongLongAndOverflow(value, &overflow);
    slot->type_index = overflow ? kTVMFFIBigInt : kTVMFFIInt;
    if (overflow && self->other != Py_None) return OTHER;
  } else if (PyFloat_Check(value)) {
    slot->type_index = kTVMFFIFloat;
    slot->v_float64 = PyFloat_AS_DOUBLE(value);
  } else if (self->other != Py_None) {
    return OTHER;
  } else if (PyObject_TypeCheck(value, torch.tensor)) {
    if (torch.api->dltensor_from_py_object_no_sync(value, tensor) != 0) return UNREADABLE;
    slot->type_index = kTVMFFIDLTensorPtr;
    slot->v_ptr = tensor;
  } else {
    slot->type_index = index_of(value);
  }
  return FILLED;
}

inline Filled fill(Entry* self, PyObject* value, TVMFFIAny* slot, DLTensor* tensor) {
  PyTypeObject* type = Py_TYPE(value);
  slot->zero_padding = 0;
  if ((type == torch.tensor || type == torch.parameter) && torch.direct) {
    if (UNLIKELY(!torch.read(value, tensor))) {
      if (self->other != Py_None) return OTHER;
      if (torch.api->dltensor_from_py_object_no_sync(value, tensor) != 0) return UNREADABLE;  // and says why
    }
  } else if (type == torch.tensor || type == torch.parameter) {
    if (UNLIKELY(torch.api->dltensor_from_py_object_no_sync(value, tensor) != 0)) {
      if (self->other == Py_None) return UNREADABLE;
      PyErr_Clear();
      return OTHER;
    }
  } else {
    return fill_other(self, value, slot, tensor);
  }
  slot->type_index = kTVMFFIDLTensorPtr;
  slot->v_ptr = tensor;
  return FILLED;
}

// Whether a tensor may be the imaginary part of a conjugate, whose elements lie two apart.
inline bool maybe_negated(const DLTensor* tensor) {
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    if (tensor->strides && tensor->strides[axis] == 1 && tensor->shape[axis] > 1) return false;
  }
  return true;
}

// 0: no argument has torch's negative bit, which DLPack drops; -1 with an error.
int refuse_negated(Entry* self, PyObject* args, Py_ssize_t count, const TVMFFIAny* slots) {
  for (int i = 0; i < self->lazy_count; ++i) {
    int place = self->lazy[i];
    if (place >= count || slots[place].type_index != kTVMFFIDLTensorPtr) continue;
    if (!maybe_negated((const DLTensor*)slots[place].v_ptr)) continue;
    PyObject* answer = PyObject_CallOneArg(torch.is_negative, PyTuple_GET_ITEM(args, place));
    if (!answer) return -1;
    Py_DECREF(answer);
    if (answer != Py_True) continue;
    raise(self, "lazy", Py_None, args);
    return -1;
  }
  return 0;
}

// torch's tensor for a result of this call; takes over the reference.
PyObject* torch_tensor(TVMFFIObjectHandle object) {
  const DLTensor* tensor = (const DLTensor*)((char*)object + sizeof(TVMFFIObject));
  PyObject* found = nullptr;
  for (Made* made = made_here; made; made = made->next) {
    if (made->managed.dl_tensor.shape != tensor->shape) continue;
    found = torch.wrapped(made->tensor);
    if (!found && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch takes no such tensor");
    TVMFFIObjectDecRef(object);
    return found;
  }
  DLManagedTensorVersioned* managed = nullptr;
  int status = TVMFFITensorToDLPackVersioned(object, &managed);
  TVMFFIObjectDecRef(object);
  if (status != 0 || torch.api->managed_tensor_to_py_object_no_sync(managed, (void**)&found) != 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, "torch takes no such tensor");
    return nullptr;
  }
  return found;
}

PyObject* torch_tensors(TVMFFIObjectHandle array, int count) {
  PyObject* list = PyList_New(count);
  for (int place = 0; list && place < count; ++place) {
    TVMFFIAny given[2], item;
    memset(given, 0, sizeof given);
    memset(&item, 0, sizeof item);
    given[0].type_index = kTVMFFIArray;
    given[0].v_obj = (TVMFFIObject*)array;
    given[1].type_index = kTVMFFIInt;
    given[1].v_int64 = place;
    PyObject* tensor = nullptr;
    if (TVMFFIFunctionCall(get_item, given, 2, &item) == 0) tensor = torch_tensor(item.v_obj);
    else PyErr_SetString(PyExc_RuntimeError, "a result is no tensor");
    if (tensor) PyList_SET_ITEM(list, place, tensor);
    else Py_CLEAR(list);
  }
  TVMFFIObjectDecRef(array);
  return list;
}

// The stream to work on: `given` (an address, or an object with `cuda_stream`), or torch's current one. False with an error.
bool find_stream(Entry* self, PyObject* given, int32_t device, void** stream) {
  if (!given || given == Py_None) {
    if (torch.api->current_work_stream((DLDeviceType)self->device_type, device, stream) == 0) return true;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, "torch tells no current stream");
    return false;
  }
  PyObject* address = PyLong_Check(given) ? Py_NewRef(given) : PyObject_GetAttrString(given, "cuda_stream");
  if (!address) return false;
  *stream = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return !PyErr_Occurred();
}

// The number of the device to work on: that of the first tensor on such a device, else torch's current one; -1 where there is none.
int32_t first_device(Entry* self, const TVMFFIAny* slots, Py_ssize_t count) {
  for (Py_ssize_t place = 0; place < count; ++place) {
    if (slots[place].type_index != kTVMFFIDLTensorPtr) continue;
    DLDevice device = ((const DLTensor*)slots[place].v_ptr)->device;
    if (device.device_type == self->device_type) return device.device_id;
  }
  PyObject* current = PyObject_CallNoArgs(torch.current_device);
  long index = current ? PyLong_AsLong(current) : -1;
  Py_XDECREF(current);
  PyErr_Clear();
  return (int32_t)index;
}

PyObject* run(Entry* self, PyObject* args, PyObject* stream, Py_ssize_t count, TVMFFIAny* slots, DLTensor* tensors) {
  for (Py_ssize_t place = 0; place < count; ++place) {
    Filled filled = fill(self, PyTuple_GET_ITEM(args, place), &slots[place], &tensors[place]);
    if (UNLIKELY(filled == UNREADABLE)) return unreadable(self, args);
    if (UNLIKELY(filled == OTHER)) return PyObject_Call(self->other, args, nullptr);
  }
  if (self->lazy_count && refuse_negated(self, args, count, slots) != 0) return nullptr;
  bool on_device = self->device_type != kDLCPU;
  int32_t device = 0;
  void *work = nullptr, *work_before = nullptr;
  if (on_device) {
    device = first_device(self, slots, count);
    on_device = device >= 0;  // where there is none, the entry's checks say so
  }
  if (on_device) {
    if (!find_stream(self, stream, device, &work)) return nullptr;
    TVMFFIEnvSetStream(self->device_type, device, work, &work_before);
  }
  TVMFFIAny result;
  memset(&result, 0, sizeof result);
  Made* outer = made_here;
  made_here = nullptr;
  DLPackManagedTensorAllocator before = nullptr;
  PyThreadState* thread = PyEval_SaveThread();
  TVMFFIEnvSetDLPackManagedTensorAllocator(torch.makes() ? allocate : torch.api->managed_tensor_allocator, 0, &before);
  int status = self->address(nullptr, slots, (int32_t)count, &result);
  TVMFFIEnvSetDLPackManagedTensorAllocator(before, 0, nullptr);
  PyEval_RestoreThread(thread);
  if (on_device) TVMFFIEnvSetStream(self->device_type, device, work_before, nullptr);
  PyObject* outputs = nullptr;
  if (status == 0) {
    outputs = self->outputs == 0   ? Py_NewRef(Py_None)
              : self->outputs == 1 ? torch_tensor(result.v_obj)
                                   : torch_tensors(result.v_obj, self->outputs);
  }
  for (Made* made = made_here; made; made = made->next) made->listed = false;
  made_here = outer;
  return UNLIKELY(status != 0) ? failed(self, args) : outputs;
}

PyObject* call(PyObject* object, PyObject* args, PyObject* kwargs) {
  Entry* self = (Entry*)object;
  PyObject* stream = nullptr;
  if (UNLIKELY(kwargs && PyDict_GET_SIZE(kwargs))) {
    stream = self->takes_stream && PyDict_GET_SIZE(kwargs) == 1 ? PyDict_GetItemString(kwargs, "stream") : nullptr;
    if (!stream) return PyErr_Format(PyExc_TypeError, "the entry takes its arguments in order, not by name");
  }
  Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (count <= ON_STACK) {
    TVMFFIAny slots[ON_STACK];
    DLTensor tensors[ON_STACK];
    return run(self, args, stream, count, slots, tensors);
  }
  TVMFFIAny* slots = (TVMFFIAny*)malloc(count * sizeof(TVMFFIAny));
  DLTensor* tensors = (DLTensor*)malloc(count * sizeof(DLTensor));
  PyObject* result = slots && tensors ? run(self, args, stream, count, slots, tensors) : PyErr_NoMemory();
  free(slots);
  free(tensors);
  return result;
}

// Entry(address, outputs, device_type, takes_stream, lazy places, explain, other, library)
PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  unsigned long long address;
  int outputs, device_type, takes_stream;
  PyObject *lazy, *explain, *other, *library;
  if (!PyArg_ParseTuple(args, "KiipO!OOO", &address, &outputs, &device_type, &takes_stream, &PyTuple_Type, &lazy, &explain,
                        &other, &library))
    return nullptr;
  int count = (int)PyTuple_GET_SIZE(lazy);
  int* places = (int*)malloc((count + 1) * sizeof(int));
  for (int i = 0; places && i < count; ++i) places[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(lazy, i));
  Entry* self = places && !PyErr_Occurred() ? (Entry*)type->tp_alloc(type, 0) : nullptr;
  if (!self) {
    free(places);
    return PyErr_Occurred() ? nullptr : PyErr_NoMemory();
  }
  self->address = (entry_t)(uintptr_t)address;
  self->outputs = outputs;
  self->device_type = device_type;
  self->takes_stream = (char)takes_stream;
  self->lazy_count = count;
  self->lazy = places;
  self->explain = Py_NewRef(explain);
  self->other = Py_NewRef(other);
  self->library = Py_NewRef(library);
  return (PyObject*)self;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Entry* self = (Entry*)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->explain);
  Py_VISIT(self->other);
  Py_VISIT(self->library);
  return 0;
}

int clear(PyObject* object) {
  Entry* self = (Entry*)object;
  Py_CLEAR(self->explain);
  Py_CLEAR(self->other);
  Py_CLEAR(self->library);
  return 0;
}

void destroy(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  free(((Entry*)object)->lazy);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"takes_stream", T_BOOL, offsetof(Entry, takes_stream), READONLY, "whether `stream` may be given by name"},
    {"other", T_OBJECT_EX, offsetof(Entry, other), READONLY, "called with arguments that are no torch tensors or numbers"},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)create},         {Py_tp_call, (void*)call},   {Py_tp_dealloc, (void*)destroy},
                       {Py_tp_traverse, (void*)traverse}, {Py_tp_clear, (void*)clear}, {Py_tp_members, (void*)members},
                       {0, nullptr}};
PyType_Spec spec = {"packed_call.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

// start(torch, samples) → (whether tensors are read directly, whether they are made directly)
PyObject* start(PyObject*, PyObject* args) {
  PyObject *module, *samples;
  if (!PyArg_ParseTuple(args, "OO!", &module, &PyTuple_Type, &samples)) return nullptr;
  TVMFFIByteArray name = {"ffi.ArrayGetItem", 16};
  if (TVMFFIFunctionGetGlobal(&name, &get_item) != 0) return PyErr_Format(PyExc_RuntimeError, "tvm-ffi has no arrays");
  if (!torch.set(module)) return nullptr;
  torch.find();
  if (!torch.probe(samples)) return nullptr;
  return Py_BuildValue("(OO)", torch.direct ? Py_True : Py_False, torch.makes() ? Py_True : Py_False);
}

// What a call of a kernel does without arguments by name: the same as Kernel.__call__, without a frame of Python between. Python
// puts its own function back when somebody assigns Kernel.__call__.
PyTypeObject* entry_type;
ternaryfunc call_kernel_slowly;
Py_ssize_t entry_offset;

PyObject* call_kernel(PyObject* kernel, PyObject* args, PyObject* kwargs) {
  PyObject* entry = *(PyObject**)((char*)kernel + entry_offset);
  if (UNLIKELY(!entry || (kwargs && PyDict_GET_SIZE(kwargs)))) return call_kernel_slowly(kernel, args, kwargs);
  Py_INCREF(entry);
  PyObject* result = Py_TYPE(entry) == entry_type ? call(entry, args, nullptr) : PyObject_Call(entry, args, nullptr);
  Py_DECREF(entry);
  return result;
}

// hasten(Kernel): makes calls of kernels go straight to what stands in their slot `entry`.
PyObject* hasten(PyObject*, PyObject* type) {
  PyObject* slot = PyType_Check(type) ? PyObject_GetAttrString(type, "entry") : nullptr;
  if (!slot || Py_TYPE(slot) != &PyMemberDescr_Type) {
    Py_XDECREF(slot);
    return PyErr_Format(PyExc_TypeError, "a class with a slot `entry` is needed");
  }
  PyTypeObject* kernel = (PyTypeObject*)type;
  entry_offset = ((PyMemberDescrObject*)slot)->d_member->offset;
  Py_DECREF(slot);
  if (kernel->tp_call != call_kernel) {
    call_kernel_slowly = kernel->tp_call;
    kernel->tp_call = call_kernel;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"start", start, METH_VARARGS, "start(torch, samples): finds what it uses of torch, once."},
                         {"hasten", hasten, METH_O, "hasten(Kernel): makes calls of kernels go straight to their entries."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "packed_call", "Calls entries of the packed ABI.", -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_packed_call(void) {
  PyObject *made = PyModule_Create(&module), *type = made ? PyType_FromSpec(&spec) : nullptr;
  entry_type = (PyTypeObject*)type;
  if (!type || PyModule_AddObject(made, "Entry", type) != 0) {
    Py_XDECREF(type);
    Py_CLEAR(made);
  }
  return made;
}
