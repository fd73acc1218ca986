/* Launching through the CUDA driver, which is opened on the first launch: a machine without it can load the library and gets an error
 * on use. Kernels come as machine code of one architecture (tile_cubin) and, for others, as text (tile_ptx) that the driver compiles.
 * Follows tile_abi.h and a definition of TILE_ARCH, the architecture that the machine code is for. C11.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#define TILE_MAX_DEVICES 64

typedef struct {
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int*, int);
  int (*cuDeviceGetAttribute)(int*, int, int);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuCtxGetCurrent)(void**);
  int (*cuCtxGetDevice)(int*);
  int (*cuCtxPushCurrent_v2)(void*);
  int (*cuCtxPopCurrent_v2)(void**);
  int (*cuModuleLoadData)(void**, const void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuFuncSetAttribute)(void*, int, int);
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*cuLaunchKernelEx)(const void*, void*, void**, void**);
  int (*cuCtxGetLimit)(size_t*, int);
  int (*cuCtxSetLimit)(int, size_t);
  int (*cuLaunchCooperativeKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);
  int (*cuGetErrorName)(int, const char**);
  int (*cuGetErrorString)(int, const char**);
  int (*cuThreadExchangeStreamCaptureMode)(int*);
} tile_driver_t;

typedef struct {
  const char* name;
  int shared_bytes;
  int cooperative; /* all blocks must run at once */
  int window;      /* 1 + the place of the argument that stays in the second-level cache, 0 for none */
  int window_size; /* the place of the number of its bytes */
  float hit_ratio; /* how much of it stays */
  void* functions[TILE_MAX_DEVICES];
} tile_kernel_t;

extern const unsigned char tile_cubin[] __attribute__((visibility("hidden")));
extern const char tile_ptx[] __attribute__((visibility("hidden")));

enum {
  TILE_CUDA_SUCCESS = 0,
  TILE_CUDA_NO_BINARY = 209,        /* CUDA_ERROR_NO_BINARY_FOR_GPU */
  TILE_CUDA_INVALID_IMAGE = 200,    /* CUDA_ERROR_INVALID_IMAGE: machine code of another architecture */
  TILE_FUNC_DYNAMIC_SHARED = 8,     /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  TILE_DEVICE_CAPABILITY_MAJOR = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
  TILE_DEVICE_CAPABILITY_MINOR = 76,
  TILE_DEVICE_PERSISTING = 108,     /* CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE */
  TILE_DEVICE_WINDOW = 109,         /* CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE */
  TILE_LIMIT_PERSISTING = 6,        /* CU_LIMIT_PERSISTING_L2_CACHE_SIZE */
  TILE_DEVICE_SHARED_OPTIN = 97,    /* CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
  TILE_CAPTURE_MODE_RELAXED = 2,
  TILE_PLAIN_SHARED_BYTES = 48 * 1024
};

static tile_driver_t tile_driver;
static int tile_driver_ready;
static void* tile_contexts[TILE_MAX_DEVICES];
static void* tile_modules[TILE_MAX_DEVICES];
static pthread_mutex_t tile_lock = PTHREAD_MUTEX_INITIALIZER;

TILE_COLD int tile_launch_error(const char* kernel, const char* what, int code, const char* configuration) {
  const char *name = NULL, *text = NULL;
  char got[512], expected[256];
  if (tile_driver.cuGetErrorName) tile_driver.cuGetErrorName(code, &name);
  if (tile_driver.cuGetErrorString) tile_driver.cuGetErrorString(code, &text);
  snprintf(got, sizeof got, "%s (%s)", name ? name : "an unknown error", text ? text : "no description");
  snprintf(expected, sizeof expected, "success%s%s", configuration[0] ? " with " : "", configuration);
  return tile_raise("tile.LaunchError", kernel, "", what, expected, got);
}

/* The driver takes neither the machine code nor the text. */
TILE_COLD int tile_wrong_device(const char* kernel, int device, int code) {
  char configuration[160];
  int major = 0, minor = 0, handle = 0;
  tile_driver.cuDeviceGet(&handle, device);
  tile_driver.cuDeviceGetAttribute(&major, TILE_DEVICE_CAPABILITY_MAJOR, handle);
  tile_driver.cuDeviceGetAttribute(&minor, TILE_DEVICE_CAPABILITY_MINOR, handle);
  snprintf(configuration, sizeof configuration,
           "code for %s on device %d of compute capability %d.%d; compile for target \"cuda\", which is the device, or update the driver",
           TILE_ARCH, device, major, minor);
  return tile_launch_error(kernel, "loading the machine code", code, configuration);
}

/* Opens the driver; the lock is held. */
TILE_COLD int tile_open_driver(const char* kernel) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return tile_raise("tile.LaunchError", kernel, "", "driver", "libcuda.so.1 of an NVIDIA driver",
                      "none: install the NVIDIA driver, or compile with execution_backend=\"emulate\" to run on the CPU");
#define TILE_SYMBOL(name)                                                                                              \
  *(void**)&tile_driver.name = dlsym(library, #name);                                                                  \
  if (!tile_driver.name)                                                                                               \
    return tile_raise("tile.LaunchError", kernel, "", "driver", #name " in libcuda.so.1", "none: the driver is too old");
  TILE_SYMBOL(cuInit)
  TILE_SYMBOL(cuDeviceGet)
  TILE_SYMBOL(cuDeviceGetAttribute)
  TILE_SYMBOL(cuDevicePrimaryCtxRetain)
  TILE_SYMBOL(cuCtxGetCurrent)
  TILE_SYMBOL(cuCtxGetDevice)
  TILE_SYMBOL(cuCtxPushCurrent_v2)
  TILE_SYMBOL(cuCtxPopCurrent_v2)
  TILE_SYMBOL(cuModuleLoadData)
  TILE_SYMBOL(cuModuleGetFunction)
  TILE_SYMBOL(cuFuncSetAttribute)
  TILE_SYMBOL(cuLaunchKernel)
  TILE_SYMBOL(cuLaunchKernelEx)
  TILE_SYMBOL(cuCtxGetLimit)
  TILE_SYMBOL(cuCtxSetLimit)
  TILE_SYMBOL(cuLaunchCooperativeKernel)
  TILE_SYMBOL(cuGetErrorName)
  TILE_SYMBOL(cuGetErrorString)
  TILE_SYMBOL(cuThreadExchangeStreamCaptureMode)
#undef TILE_SYMBOL
  int code = tile_driver.cuInit(0);
  if (code) return tile_launch_error(kernel, "cuInit", code, "");
  tile_driver_ready = 1;
  return 0;
}

/* The device's primary context, which torch uses too; the lock is held. */
TILE_COLD int tile_open_context(const char* kernel, int device) {
  int handle = 0;
  int code = tile_driver.cuDeviceGet(&handle, device);
  if (!code) code = tile_driver.cuDevicePrimaryCtxRetain(&tile_contexts[device], handle);
  return code ? tile_launch_error(kernel, "opening the device", code, "") : 0;
}

/* The kernel on a device whose context is current; the lock is held. */
TILE_COLD int tile_load_function(tile_kernel_t* kernel, int device) {
  char configuration[96];
  int code = 0, mode = TILE_CAPTURE_MODE_RELAXED;
  void* function = NULL;
  tile_driver.cuThreadExchangeStreamCaptureMode(&mode); /* a graph may be being captured: loading is allowed meanwhile */
  if (!tile_modules[device]) {
    code = tile_driver.cuModuleLoadData(&tile_modules[device], tile_cubin);
    if ((code == TILE_CUDA_NO_BINARY || code == TILE_CUDA_INVALID_IMAGE) && tile_ptx[0])
      code = tile_driver.cuModuleLoadData(&tile_modules[device], tile_ptx);
  }
  if (!code) code = tile_driver.cuModuleGetFunction(&function, tile_modules[device], kernel->name);
  if (code) {
    tile_driver.cuThreadExchangeStreamCaptureMode(&mode);
    return tile_wrong_device(kernel->name, device, code);
  }
  if (kernel->shared_bytes > TILE_PLAIN_SHARED_BYTES) {
    code = tile_driver.cuFuncSetAttribute(function, TILE_FUNC_DYNAMIC_SHARED, kernel->shared_bytes);
    if (code) {
      int most = 0, handle = 0;
      tile_driver.cuDeviceGet(&handle, device);
      tile_driver.cuDeviceGetAttribute(&most, TILE_DEVICE_SHARED_OPTIN, handle);
      snprintf(configuration, sizeof configuration, "%d bytes of shared memory, of which the device has %d", kernel->shared_bytes,
               most);
    }
  }
  tile_driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (code) return tile_launch_error(kernel->name, "setting the size of shared memory", code, configuration);
  __atomic_store_n(&kernel->functions[device], function, __ATOMIC_RELEASE);
  return 0;
}

TILE_COLD int tile_prepare(tile_kernel_t* kernel, int device, int need_function) {
  int rc = 0;
  pthread_mutex_lock(&tile_lock);
  if (!tile_driver_ready) rc = tile_open_driver(kernel->name);
  if (!rc && device >= 0 && !tile_contexts[device]) rc = tile_open_context(kernel->name, device);
  if (!rc && need_function && !kernel->functions[device]) rc = tile_load_function(kernel, device);
  pthread_mutex_unlock(&tile_lock);
  return rc;
}

/* The device of the calling thread's context, 0 without one. */
__attribute__((unused)) static int tile_current_device(void) {
  int device = 0;
  if (tile_driver_ready && tile_driver.cuCtxGetDevice(&device) != 0) device = 0;
  return device;
}

TILE_COLD int tile_bad_launch(const char* kernel, const int64_t* size, int code) {
  char configuration[192];
  snprintf(configuration, sizeof configuration, "grid (%lld, %lld, %lld), threads (%lld, %lld, %lld), %lld bytes of shared memory",
           (long long)size[0], (long long)size[1], (long long)size[2], (long long)size[3], (long long)size[4], (long long)size[5],
           (long long)size[6]);
  if (code) return tile_launch_error(kernel, "launch", code, configuration);
  return tile_raise("tile.LaunchError", kernel, "", "launch", "a grid within (2147483647, 65535, 65535)", configuration);
}

/* CUaccessPolicyWindow, CUlaunchAttribute and CUlaunchConfig of cuda.h. */
typedef struct {
  void* base;
  size_t bytes;
  float hit_ratio;
  int hit, miss;
} tile_window_t;
typedef struct {
  int id;
  char pad[4];
  union {
    char room[64];
    tile_window_t window;
    int cooperative;
  } value;
} tile_attribute_t;
typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  tile_attribute_t* attributes;
  unsigned attribute_count;
} tile_config_t;
enum { TILE_ATTRIBUTE_WINDOW = 1, TILE_ATTRIBUTE_COOPERATIVE = 2, TILE_STREAMING = 1, TILE_PERSISTING = 2 };

/* A launch with a window over one of its tensors. As much of the cache as the window wants is set aside for such lines, once and up to
 * the device's limit; the device may say no, since all this is about speed. */
static int tile_launch_windowed(const tile_kernel_t* kernel, int device, void* function, const int64_t* size, void* stream,
                                void** arguments) {
  static size_t set_aside[TILE_MAX_DEVICES];
  int handle = 0, most = 0, longest = 0;
  const int64_t bytes = *(const int64_t*)arguments[kernel->window_size];
  tile_driver.cuDeviceGet(&handle, device);
  tile_driver.cuDeviceGetAttribute(&longest, TILE_DEVICE_WINDOW, handle);
  tile_attribute_t attributes[2] = {{TILE_ATTRIBUTE_WINDOW, {0}, {{0}}}, {TILE_ATTRIBUTE_COOPERATIVE, {0}, {{0}}}};
  tile_window_t* window = &attributes[0].value.window;
  window->base = *(void**)arguments[kernel->window - 1];
  window->bytes = (size_t)(bytes < longest ? bytes : longest);
  window->hit_ratio = kernel->hit_ratio;
  window->hit = TILE_PERSISTING;
  window->miss = TILE_STREAMING;
  attributes[1].value.cooperative = 1;
  pthread_mutex_lock(&tile_lock);
  if (window->bytes > set_aside[device]) {
    size_t now = 0, wanted = window->bytes;
    tile_driver.cuDeviceGetAttribute(&most, TILE_DEVICE_PERSISTING, handle);
    if (wanted > (size_t)most) wanted = (size_t)most;
    if (tile_driver.cuCtxGetLimit(&now, TILE_LIMIT_PERSISTING) == 0 && wanted > now)
      tile_driver.cuCtxSetLimit(TILE_LIMIT_PERSISTING, wanted);
    set_aside[device] = window->bytes;
  }
  pthread_mutex_unlock(&tile_lock);
  tile_config_t config = {{(unsigned)size[0], (unsigned)size[1], (unsigned)size[2]},
                          {(unsigned)size[3], (unsigned)size[4], (unsigned)size[5]},
                          (unsigned)size[6],
                          stream,
                          window->bytes ? attributes : attributes + 1,
                          (unsigned)((window->bytes != 0) + (kernel->cooperative != 0))};
  return tile_driver.cuLaunchKernelEx(&config, function, arguments, NULL);
}

/* size: grid x, y, z, threads x, y, z, bytes of shared memory. A grid without blocks is nothing to do. */
static int tile_launch(tile_kernel_t* kernel, int device, const int64_t* size, void** arguments) {
  if (size[0] <= 0 || size[1] <= 0 || size[2] <= 0) return 0;
  if (TILE_UNLIKELY(size[0] > 2147483647 || size[1] > 65535 || size[2] > 65535)) return tile_bad_launch(kernel->name, size, 0);
  if (TILE_UNLIKELY(!tile_driver_ready) && tile_prepare(kernel, -1, 0) != 0) return -1;
  if (device < 0) device = tile_current_device();
  if (TILE_UNLIKELY(device >= TILE_MAX_DEVICES))
    return tile_raise("tile.LaunchError", kernel->name, "", "device", "a number below 64", "a larger one");
  if (TILE_UNLIKELY(!tile_contexts[device]) && tile_prepare(kernel, device, 0) != 0) return -1;
  void* current = NULL;
  tile_driver.cuCtxGetCurrent(&current);
  int other = current != tile_contexts[device];
  if (other) tile_driver.cuCtxPushCurrent_v2(tile_contexts[device]);
  int rc = 0;
  void* function = __atomic_load_n(&kernel->functions[device], __ATOMIC_ACQUIRE);
  if (TILE_UNLIKELY(!function)) {
    rc = tile_prepare(kernel, device, 1);
    function = kernel->functions[device];
  }
  if (TILE_LIKELY(rc == 0)) {
    void* stream = TVMFFIEnvGetStream(kDLCUDA, device);
    const unsigned gx = (unsigned)size[0], gy = (unsigned)size[1], gz = (unsigned)size[2];
    const unsigned bx = (unsigned)size[3], by = (unsigned)size[4], bz = (unsigned)size[5], bytes = (unsigned)size[6];
    int code = TILE_UNLIKELY(kernel->window) ? tile_launch_windowed(kernel, device, function, size, stream, arguments)
               : TILE_UNLIKELY(kernel->cooperative)
                   ? tile_driver.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, bytes, stream, arguments)
                   : tile_driver.cuLaunchKernel(function, gx, gy, gz, bx, by, bz, bytes, stream, arguments, NULL);
    if (TILE_UNLIKELY(code)) rc = tile_bad_launch(kernel->name, size, code);
  }
  if (other) tile_driver.cuCtxPopCurrent_v2(&current);
  return rc;
}
