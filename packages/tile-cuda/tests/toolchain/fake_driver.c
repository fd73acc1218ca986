/* A CUDA driver that only writes down what it is asked, for tests of the launcher. FAKE_CUDA holds words that change its answers:
 * no_binary, no_ptx, bad_launch, small_shared, other_context.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has(const char* word) {
  const char* text = getenv("FAKE_CUDA");
  return text && strstr(text, word) != NULL;
}
static void note(const char* format, long long a, long long b) {
  FILE* file = fopen(getenv("FAKE_CUDA_LOG"), "a");
  fprintf(file, format, a, b);
  fputc('\n', file);
  fclose(file);
}
static void* current;

int cuInit(unsigned flags) { note("init", 0, 0); return has("no_device") ? 100 : 0; }
int cuDeviceGet(int* handle, int device) { *handle = device; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 97 ? 99 * 1024 : attribute == 75 ? 7 : attribute == 108 ? 3 << 20 : attribute == 109 ? 128 << 20 : 5;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  note("retain %lld", device, 0);
  *context = (void*)(long long)(0x100 + device);
  return 0;
}
int cuCtxGetCurrent(void** context) { *context = has("other_context") ? (void*)0x999 : current; return 0; }
int cuCtxGetDevice(int* device) { *device = 0; return 0; }
int cuCtxPushCurrent_v2(void* context) { note("push %lld", (long long)context - 0x100, 0); current = context; return 0; }
int cuCtxPopCurrent_v2(void** context) { note("pop", 0, 0); *context = current; current = NULL; return 0; }
int cuModuleLoadData(void** module, const void* image) {
  int elf = memcmp(image, "\177ELF", 4) == 0;
  note(elf ? "load cubin" : "load ptx", 0, 0);
  if (elf && has("no_binary")) return 209;
  if (!elf && has("no_ptx")) return 222;
  *module = (void*)1;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) { *function = (void*)2; return 0; }
int cuFuncSetAttribute(void* function, int attribute, int value) {
  note("attribute %lld = %lld", attribute, value);
  return has("small_shared") ? 1 : 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** arguments, void** extra) {
  note("launch %lld blocks of %lld", (long long)gx * gy * gz, (long long)bx * by * bz);
  note("shared %lld", shared, 0);
  return has("bad_launch") ? 701 : 0;
}
int cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, void* stream, void** arguments) {
  note("launch %lld blocks together of %lld", (long long)gx * gy * gz, (long long)bx * by * bz);
  return 0;
}
int cuCtxGetLimit(size_t* value, int limit) { *value = 1 << 10; return 0; }
int cuCtxSetLimit(int limit, size_t value) { note("limit %lld = %lld", limit, (long long)value); return 0; }
/* As cuda.h lays out CUlaunchConfig and its attributes. */
struct attribute {
  int id;
  char pad[4];
  union {
    char room[64];
    struct { void* base; size_t bytes; float ratio; int hit, miss; } window;
    int cooperative;
  } value;
};
struct config { unsigned grid[3], block[3], shared; void* stream; struct attribute* attributes; unsigned count; };
int cuLaunchKernelEx(const struct config* c, void* function, void** arguments, void** extra) {
  for (unsigned i = 0; i < c->count; i++) {
    const struct attribute* a = c->attributes + i;
    if (a->id == 1) {
      note("window over %lld bytes, first argument %lld", (long long)a->value.window.bytes,
           a->value.window.base == *(void**)arguments[0]);
      note("per mille %lld, properties %lld", (long long)(a->value.window.ratio * 1000), a->value.window.hit * 10 + a->value.window.miss);
    }
    if (a->id == 2) note("together %lld", a->value.cooperative, 0);
  }
  note("launch %lld blocks of %lld", (long long)c->grid[0] * c->grid[1] * c->grid[2], (long long)c->block[0] * c->block[1] * c->block[2]);
  return 0;
}
int cuGetErrorName(int code, const char** text) {
  *text = code == 701 ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" : code == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" : "CUDA_ERROR";
  return 0;
}
int cuGetErrorString(int code, const char** text) { *text = "as the test wants it"; return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) { note("capture mode %lld", *mode, 0); *mode = 0; return 0; }
