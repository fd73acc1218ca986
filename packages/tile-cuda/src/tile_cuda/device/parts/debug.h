// What kernels print and check while they run; the formats are made with the kernel, a line each.
namespace tile {

#ifdef TILE_EMULATE
// Not watched: the stream is no memory of the kernel's.
static __attribute__((noinline, no_sanitize("thread"))) void write_line(const char* line) {
  fputs(line, stdout);
  fflush(stdout);
}
#endif

template <class... Values>
TILE_FN void device_print(const char* format, Values... values) {
#ifdef TILE_EMULATE
  char line[1024];
  snprintf(line, sizeof line, format, values...);
  write_line(line);
#else
  printf(format, values...);
#endif
}

// Where a condition does not hold: its values are printed, and the kernel ends with an error.
template <class... Values>
TILE_FN void device_assert(bool holds, const char* format, Values... values) {
  if (holds) return;
#ifdef TILE_EMULATE
  char line[1024];
  snprintf(line, sizeof line, format, values...);
  for (char* c = line; *c; ++c)
    if (*c == '\n') *c = 0;
  emu::trap(line);
#else
  printf(format, values...);
  __trap();
#endif
}

}  // namespace tile

