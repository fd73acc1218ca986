// torch's tensors as DLPack tells them, and new ones: what `packed_call.cpp` uses of torch.
//
// DLPack's exchange interface of torch does all of it. There are shorter ways, used where they are there and do what they should (see
// `Torch::probe`): a tensor's fields are read as torch's own headers say, with which this is then compiled (TILE_TORCH_HEADERS); new
// tensors come from torch's C shim and are wrapped by a function of its Python library.
//
//                                               through the exchange interface    directly    (ns, measured)
//     a tensor's fields                                                     42           4
//     a new tensor of 16 floats, made and freed                            515         240
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#ifdef TILE_TORCH_HEADERS
#include <c10/core/TensorImpl.h>
#endif

namespace {

constexpr int CODES = 18, WIDTHS = 7;  // of DLPack's element types; 1, 2, … 64 bits
constexpr int SCALAR_TYPES = 128;      // of torch

struct ElementType {
  const char* name;
  int code, bits;
};
constexpr ElementType ELEMENT_TYPES[] = {
    {"float32", 2, 32}, {"float16", 2, 16}, {"bfloat16", 4, 16}, {"float64", 2, 64}, {"int8", 0, 8}, {"int16", 0, 16},
    {"int32", 0, 32}, {"int64", 0, 64}, {"uint8", 1, 8}, {"uint16", 1, 16}, {"uint32", 1, 32}, {"uint64", 1, 64},
    {"bool", 6, 8}, {"float8_e4m3fn", 10, 8}, {"float8_e4m3fnuz", 11, 8}, {"float8_e5m2", 12, 8},
    {"float8_e5m2fnuz", 13, 8}, {"float8_e8m0fnu", 14, 8}};

// What is used of torch. A `void*` to a tensor is an `at::Tensor*` (torch's C shim calls it AtenTensorHandle).
struct Torch {
  PyTypeObject* tensor;     // torch.Tensor
  PyTypeObject* parameter;  // torch.nn.Parameter, the same to C++
  PyObject* is_negative;    // torch.Tensor.is_neg
  PyObject* current_device;
  const DLPackExchangeAPI* api;
  bool direct;  // whether `read` may be used
  int (*empty)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**);
  int (*data)(void*, void**);
  int (*destroy)(void*);
  PyObject* (*wrap)(void* tensor);  // THPVariable_Wrap; throws
  int8_t scalar_types[CODES][WIDTHS];  // element types of DLPack → of torch, -1 for none
  DLDataType types[SCALAR_TYPES];      // and back, code 255 for none

  bool makes() const { return wrap != nullptr; }

  // The tensor inside torch's Python object.
  static void* inside(PyObject* object) { return (char*)object + sizeof(PyObject); }

  // The fields of a tensor; false for one that has no such memory (sparse, wrapped, on another kind of device), or an element type that
  // kernels do not have.
#ifdef TILE_TORCH_HEADERS
  bool read(PyObject* object, DLTensor* out) const {
    try {
      c10::TensorImpl* tensor = *(c10::TensorImpl**)inside(object);
      int type = (int)c10::typeMetaToScalarType(tensor->dtype());
      c10::Device device = tensor->device();
      out->data = tensor->mutable_data();
      c10::IntArrayRef sizes = tensor->sizes(), strides = tensor->strides();
      out->device.device_type = device.is_cpu() ? kDLCPU : kDLCUDA;
      out->device.device_id = device.is_cpu() ? 0 : device.index();
      out->ndim = (int32_t)sizes.size();
      out->dtype = types[type & (SCALAR_TYPES - 1)];
      out->shape = (int64_t*)sizes.data();
      out->strides = (int64_t*)strides.data();
      out->byte_offset = 0;
      return out->dtype.code != 255 && (device.is_cpu() || device.is_cuda());
    } catch (...) {
      return false;
    }
  }
#else
  bool read(PyObject*, DLTensor*) const { return false; }
#endif

  PyObject* wrapped(void* tensor) const {
    try {
      return wrap(tensor);
    } catch (...) {
      return nullptr;
    }
  }

  int scalar_type(DLDataType type) const {
    if (type.lanes != 1 || type.code >= CODES || type.bits == 0 || type.bits > 64 || (type.bits & (type.bits - 1))) return -1;
    return scalar_types[type.code][__builtin_ctz(type.bits)];
  }

  bool set(PyObject* module);
  void find();
  bool probe(PyObject* samples);
};

Torch torch;

bool Torch::set(PyObject* module) {
  tensor = (PyTypeObject*)PyObject_GetAttrString(module, "Tensor");
  PyObject* nn = PyObject_GetAttrString(module, "nn");
  parameter = nn ? (PyTypeObject*)PyObject_GetAttrString(nn, "Parameter") : nullptr;
  Py_XDECREF(nn);
  PyObject* cuda = PyObject_GetAttrString(module, "cuda");
  current_device = cuda ? PyObject_GetAttrString(cuda, "current_device") : nullptr;
  Py_XDECREF(cuda);
  if (!tensor || !parameter || !current_device) return false;
  is_negative = PyObject_GetAttrString((PyObject*)tensor, "is_neg");
  PyObject* capsule = PyObject_GetAttrString((PyObject*)tensor, "__dlpack_c_exchange_api__");
  api = capsule ? (const DLPackExchangeAPI*)PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : nullptr;
  Py_XDECREF(capsule);
  return is_negative && api;
}

// Looks for the functions; those of torch's C shim have a stable ABI, the one of C++ is tried by `probe`.
void Torch::find() {
  void* core = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* python = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  memset(scalar_types, -1, sizeof scalar_types);
  memset(types, -1, sizeof types);
  if (!core || !python) return;
  empty = (decltype(empty))dlsym(core, "aoti_torch_empty_strided");
  data = (decltype(data))dlsym(core, "aoti_torch_get_data_ptr");
  destroy = (decltype(destroy))dlsym(core, "aoti_torch_delete_tensor_object");
  wrap = (decltype(wrap))dlsym(python, "_Z16THPVariable_WrapON2at10TensorBaseE");
  if (!wrap) wrap = (decltype(wrap))dlsym(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  if (!empty || !data || !destroy) wrap = nullptr;
  for (const ElementType& type : ELEMENT_TYPES) {
    char name[64] = "aoti_torch_dtype_";
    auto number = (int32_t(*)())dlsym(core, strcat(name, type.name));
    if (!number) continue;
    int found = number();
    scalar_types[type.code][__builtin_ctz(type.bits)] = (int8_t)found;
    types[found & (SCALAR_TYPES - 1)] = {(uint8_t)type.code, (uint8_t)type.bits, 1};
  }
}

bool same(const DLTensor& a, const DLTensor& b) {
  if (a.data != b.data || a.ndim != b.ndim || a.byte_offset != b.byte_offset) return false;
  if (memcmp(&a.dtype, &b.dtype, sizeof a.dtype) != 0 || a.device.device_type != b.device.device_type) return false;
  for (int axis = 0; axis < a.ndim; ++axis) {
    if (a.shape[axis] != b.shape[axis] || a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

// Tries the shorter ways: reading each sample gives what the exchange interface gives, and a new tensor is one. What does not is not used.
// False with a Python error if anything else fails.
bool Torch::probe(PyObject* samples) {
  direct = PyTuple_GET_SIZE(samples) > 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples) && direct; ++i) {
    PyObject* sample = PyTuple_GET_ITEM(samples, i);
    PyObject* address = PyObject_GetAttrString(sample, "_cdata");  // of the TensorImpl, all that a tensor in C++ is
    DLTensor wanted, found;
    if (!address || api->dltensor_from_py_object_no_sync(sample, &wanted) != 0) return false;
    bool there = Py_TYPE(sample)->tp_basicsize >= (Py_ssize_t)(sizeof(PyObject) + sizeof(void*)) &&
                 *(void**)inside(sample) == PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    direct = there && read(sample, &found) && same(wanted, found);
  }
  if (!makes()) return true;
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  void* handle = nullptr;
  DLTensor found;
  PyObject* made = empty(2, shape, strides, scalar_types[2][5], 0, 0, &handle) == 0 ? wrapped(handle) : nullptr;
  if (handle) destroy(handle);
  bool right = made && Py_TYPE(made) == tensor && api->dltensor_from_py_object_no_sync(made, &found) == 0 &&
               found.ndim == 2 && found.shape[1] == 3 && found.strides[0] == 3 && found.dtype.code == kDLFloat &&
               found.dtype.bits == 32;
  Py_XDECREF(made);
  if (!right) wrap = nullptr;
  PyErr_Clear();
  return true;
}

// A tensor that was made during a call, and what tvm-ffi is told of it. Those of a running call are in a list, so that its
// results are recognised.
struct Made {
  DLManagedTensorVersioned managed;
  void* tensor;
  Made* next;
  Made* previous;
  bool listed;
  int64_t sizes[];  // shape, then strides
};

thread_local Made* made_here = nullptr;

void release(DLManagedTensorVersioned* managed) {
  Made* made = (Made*)managed->manager_ctx;
  if (made->listed) {
    if (made->next) made->next->previous = made->previous;
    (made->previous ? made->previous->next : made_here) = made->next;
  }
  torch.destroy(made->tensor);
  free(made);
}

// tvm-ffi's allocator during a call. What torch's own does not take, or refuses, goes to the one of its exchange interface, which says why.
int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) {
  int32_t device = prototype->device.device_type == kDLCPU ? 0 : prototype->device.device_type == kDLCUDA ? 1 : -1;
  int scalar_type = torch.scalar_type(prototype->dtype), ndim = prototype->ndim;
  Made* made = nullptr;
  if (device < 0 || scalar_type < 0) return torch.api->managed_tensor_allocator(prototype, out, context, set_error);
  made = (Made*)malloc(sizeof(Made) + 2 * (ndim + 1) * sizeof(int64_t));
  if (!made) return torch.api->managed_tensor_allocator(prototype, out, context, set_error);
  int64_t *shape = made->sizes, *strides = shape + ndim + 1, running = 1;
  for (int axis = ndim - 1; axis >= 0; --axis) {
    shape[axis] = prototype->shape[axis];
    strides[axis] = running;
    running *= shape[axis] > 1 ? shape[axis] : 1;
  }
  int32_t index = device ? prototype->device.device_id : 0;
  if (torch.empty(ndim, shape, strides, scalar_type, device, index, &made->tensor) != 0) {
    free(made);
    return torch.api->managed_tensor_allocator(prototype, out, context, set_error);
  }
  DLManagedTensorVersioned* managed = &made->managed;
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->manager_ctx = made;
  managed->deleter = release;
  managed->flags = 0;
  managed->dl_tensor = *prototype;
  managed->dl_tensor.shape = shape;
  managed->dl_tensor.strides = strides;
  managed->dl_tensor.byte_offset = 0;
  torch.data(made->tensor, &managed->dl_tensor.data);
  made->previous = nullptr;
  made->next = made_here;
  made->listed = true;
  if (made_here) made_here->previous = made;
  made_here = made;
  *out = managed;
  return 0;
}

}  // namespace
