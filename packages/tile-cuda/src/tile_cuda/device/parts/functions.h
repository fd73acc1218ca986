#ifdef TILE_EMULATE
#define TILE_ROUNDS_BY_DOUBLES 1
#endif
namespace tile {

//@functions
}  // namespace tile

