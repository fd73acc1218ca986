/* Support for a packed host stub: argument access, allocation of outputs, errors. C11 and C++17, tvm-ffi C ABI only.
 *
 * A failing check raises kind "tile.ArgumentError". Its message is a readable sentence (for C++ users of an exported library);
 * its extra_context is a string of fields separated by U+001F: "tile", kernel, argument, field, expected, got, from which the
 * runtime builds the typed Python error with the parameter's source line.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#define TILE_LIKELY(x) __builtin_expect(!!(x), 1)
#define TILE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TILE_COLD __attribute__((noinline, cold, unused)) static
#define TILE_DTYPE(code, bits, lanes) ((uint32_t)(code) | (uint32_t)(bits) << 8 | (uint32_t)(lanes) << 16)

/* DLTensor of an argument, NULL if it is none. tile_runtime passes kTVMFFIDLTensorPtr, tvm-ffi's own callers kTVMFFITensor; the hint is for
 * the first: 2.4 ns an argument less than for the other (measured). */
static inline DLTensor* tile_tensor(const TVMFFIAny* arg) {
  if (TILE_LIKELY(arg->type_index == kTVMFFIDLTensorPtr)) return (DLTensor*)arg->v_ptr;
  if (arg->type_index == kTVMFFITensor) return (DLTensor*)((char*)arg->v_obj + sizeof(TVMFFIObject));
  return NULL;
}
static inline uint32_t tile_dtype(const DLTensor* t) {
  return TILE_DTYPE(t->dtype.code, t->dtype.bits, t->dtype.lanes);
}
static inline void* tile_data(const DLTensor* t) { return (char*)t->data + t->byte_offset; }
/* Scalars: bool takes bool and int, int takes int and bool, float takes float, int and bool (as Python users expect). */
static inline int tile_is_int(const TVMFFIAny* a) { return a->type_index == kTVMFFIInt || a->type_index == kTVMFFIBool; }
static inline int tile_is_float(const TVMFFIAny* a) { return a->type_index == kTVMFFIFloat || tile_is_int(a); }
static inline double tile_float(const TVMFFIAny* a) {
  return a->type_index == kTVMFFIFloat ? a->v_float64 : (double)a->v_int64;
}

/* The fp32 number at or next to x with an odd last bit where x is none itself: rounding it again, to a narrower type, gives what rounding
 * x gives. */
__attribute__((unused)) static float tile_odd_float(double x) {
  float f = (float)x;
  uint32_t bits;
  if ((double)f == x || x != x) return f;
  memcpy(&bits, &f, sizeof bits);
  if (bits & 1) return f;
  bits += ((double)f > x) == (x > 0) ? -1 : 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

TILE_COLD int tile_raise(const char* kind, const char* kernel, const char* argument, const char* field,
                         const char* expected, const char* got) {
  char message[1024], payload[1024];
  snprintf(message, sizeof message, "%s: %s%s%s%s: expected %s, got %s", kernel, argument[0] ? "argument " : "", argument,
           argument[0] ? ": " : "", field, expected, got);
  snprintf(payload, sizeof payload, "tile\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s", kernel, argument, field, expected, got);
  TVMFFIByteArray kind_bytes = {kind, strlen(kind)}, message_bytes = {message, strlen(message)}, none = {"", 0};
  TVMFFIByteArray payload_bytes = {payload, strlen(payload)};
  TVMFFIAny extra;
  TVMFFIObjectHandle error = NULL;
  memset(&extra, 0, sizeof extra);
  if (TVMFFIStringFromByteArray(&payload_bytes, &extra) == 0 && extra.type_index >= kTVMFFIStaticObjectBegin) {
    int rc = TVMFFIErrorCreateWithCauseAndExtraContext(&kind_bytes, &message_bytes, &none, NULL, extra.v_obj, &error);
    TVMFFIObjectDecRef(extra.v_obj); /* the error took its own reference */
    if (rc == 0) {
      TVMFFIErrorSetRaised(error);
      TVMFFIObjectDecRef(error);
      return -1;
    }
  }
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

TILE_COLD int tile_bad_int(const char* kernel, const char* argument, const char* field, int64_t expected, int64_t got) {
  char e[24], g[24];
  snprintf(e, sizeof e, "%lld", (long long)expected);
  snprintf(g, sizeof g, "%lld", (long long)got);
  return tile_raise("tile.ArgumentError", kernel, argument, field, e, g);
}

/* A symbolic condition (T.assume, divisibility): text is the condition as the kernel's author wrote it. */
TILE_COLD int tile_bad_condition(const char* kernel, const char* argument, const char* text, int64_t got) {
  char g[24];
  snprintf(g, sizeof g, "%lld", (long long)got);
  return tile_raise("tile.ArgumentError", kernel, argument, "condition", text, g);
}

TILE_COLD int tile_bad_type(const char* kernel, const char* argument, const char* expected, const TVMFFIAny* arg) {
  const char* got = "an object that is no tensor";
  switch (arg->type_index) {
    case kTVMFFINone: got = "None"; break;
    case kTVMFFIInt: got = "int"; break;
    case kTVMFFIBool: got = "bool"; break;
    case kTVMFFIFloat: got = "float"; break;
    case kTVMFFIRawStr: case kTVMFFISmallStr: case kTVMFFIStr: got = "str"; break;
    case kTVMFFIDLTensorPtr: case kTVMFFITensor: got = "a tensor"; break;
    case kTVMFFIArray: got = "a list or tuple"; break;
    case kTVMFFIMap: got = "a dict"; break;
    case kTVMFFIDataType: got = "a dtype"; break;
    case kTVMFFIBigInt: got = "an int beyond 64 bits"; break;
    default: break;
  }
  return tile_raise("tile.ArgumentError", kernel, argument, "type", expected, got);
}

TILE_COLD int tile_bad_dtype(const char* kernel, const char* argument, const char* expected, const DLTensor* t) {
  char got[64];
  TVMFFIAny text;
  memset(&text, 0, sizeof text);
  if (TVMFFIDataTypeToString(&t->dtype, &text) != 0) {
    snprintf(got, sizeof got, "dtype code %d of %d bits", t->dtype.code, t->dtype.bits);
  } else if (text.type_index == kTVMFFISmallStr) {
    snprintf(got, sizeof got, "%.*s", (int)text.small_str_len, text.v_bytes);
  } else {
    const TVMFFIByteArray* bytes = (const TVMFFIByteArray*)((char*)text.v_obj + sizeof(TVMFFIObject));
    snprintf(got, sizeof got, "%.*s", (int)bytes->size, bytes->data);
    TVMFFIObjectDecRef(text.v_obj);
  }
  return tile_raise("tile.ArgumentError", kernel, argument, "dtype", expected, got);
}

TILE_COLD int tile_bad_device(const char* kernel, const char* argument, const char* expected, DLDevice device) {
  char got[48];
  const char* name = "device type";
  switch (device.device_type) {
    case kDLCPU: name = "cpu"; break;
    case kDLCUDA: name = "cuda"; break;
    case kDLCUDAHost: name = "cuda_host"; break;
    case kDLMetal: name = "metal"; break;
    case kDLROCM: name = "rocm"; break;
    case kDLExtDev: name = "ext_dev"; break;
    default: snprintf(got, sizeof got, "device type %d:%d", device.device_type, device.device_id); name = NULL; break;
  }
  if (name) snprintf(got, sizeof got, "%s:%d", name, device.device_id);
  return tile_raise("tile.ArgumentError", kernel, argument, "device", expected, got);
}

/* A new tensor from the caller's allocator (torch's when an argument was a torch tensor); strides are row-major. */
__attribute__((unused)) static int tile_alloc(int32_t ndim, const int64_t* shape, DLDataType dtype, DLDevice device,
                                              TVMFFIObjectHandle* out) {
  DLTensor prototype;
  memset(&prototype, 0, sizeof prototype);
  prototype.ndim = ndim;
  prototype.shape = (int64_t*)shape;
  prototype.dtype = dtype;
  prototype.device = device;
  return TVMFFIEnvTensorAlloc(&prototype, out);
}

__attribute__((unused)) static inline DLTensor* tile_tensor_of(TVMFFIObjectHandle object) {
  return (DLTensor*)((char*)object + sizeof(TVMFFIObject));
}

/* One output returns as a tensor, several as an ffi Array; takes over the references. */
__attribute__((unused)) static int tile_return(TVMFFIObjectHandle* outputs, int32_t count, TVMFFIAny* result) {
  TVMFFIAny items[64];
  if (count == 1) {
    result->type_index = kTVMFFITensor;
    result->zero_padding = 0;
    result->v_obj = (TVMFFIObject*)outputs[0];
    return 0;
  }
  static TVMFFIObjectHandle make_array; /* a global function lives as long as the process */
  int rc = 0;
  if (!make_array) {
    TVMFFIByteArray name = {"ffi.Array", 9};
    rc = TVMFFIFunctionGetGlobal(&name, &make_array);
  }
  for (int32_t i = 0; i < count; ++i) {
    items[i].type_index = kTVMFFITensor;
    items[i].zero_padding = 0;
    items[i].v_obj = (TVMFFIObject*)outputs[i];
  }
  if (rc == 0) rc = TVMFFIFunctionCall(make_array, items, count, result);
  for (int32_t i = 0; i < count; ++i) TVMFFIObjectDecRef(outputs[i]);
  return rc;
}
/* A value outside a range: `expected` says which. */
TILE_COLD int tile_bad_range(const char* kernel, const char* argument, const char* field, const char* expected,
                             int64_t got) {
  char g[24];
  snprintf(g, sizeof g, "%lld", (long long)got);
  return tile_raise("tile.ArgumentError", kernel, argument, field, expected, g);
}

/* A raw pointer: an integer address or an opaque pointer. */
__attribute__((unused)) static inline int tile_is_pointer(const TVMFFIAny* a) {
  return a->type_index == kTVMFFIInt || a->type_index == kTVMFFIOpaquePtr || a->type_index == kTVMFFINone;
}
__attribute__((unused)) static inline void* tile_pointer(const TVMFFIAny* a) {
  return a->type_index == kTVMFFIInt ? (void*)(intptr_t)a->v_int64 : a->type_index == kTVMFFINone ? NULL : a->v_ptr;
}

/* Stride of an axis in elements; a tensor that carries no strides is row-major. */
__attribute__((unused)) static inline int64_t tile_stride(const DLTensor* t, int32_t axis) {
  if (t->strides) return t->strides[axis];
  int64_t stride = 1;
  for (int32_t i = t->ndim - 1; i > axis; --i) stride *= t->shape[i];
  return stride;
}

/* Python's // and %: the quotient rounds to minus infinity. */
__attribute__((unused)) static inline int64_t tile_floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
__attribute__((unused)) static inline int64_t tile_floormod(int64_t a, int64_t b) { return a - tile_floordiv(a, b) * b; }
