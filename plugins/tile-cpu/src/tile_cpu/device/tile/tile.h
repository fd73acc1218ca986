// Everything that a generated CPU kernel uses.
#pragma once

#include "atomic.h"
#include "atomic.h"
#include "copy.h"
#include "gemm.h"
#include "math.h"
#include "math_rounded.h"
#include "memory.h"
#include "parallel.h"
#include "random.h"
#include "reduce.h"
#include "vec.h"
