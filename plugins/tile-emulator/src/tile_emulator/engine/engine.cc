// The emulation engine as one translation unit: compiled once a machine, without instrumentation, and linked into every emulated kernel.
// Everything but the functions for the host is hidden, so that two kernels in one process don't share state.
#include "host.h"

namespace emu {
Engine engine;
}
