package boltstore

// arena holds the rows of one commit: bbolt keeps what it is given until then.
type arena struct {
	blocks [][]byte
	used   int // blocks
}

const (
	arenaBlock  = 256 << 10
	arenaBlocks = 4 // kept from commit to commit
)

// keep copies b to where it stays until reset.
func (a *arena) keep(b []byte) []byte {
	for ; a.used < len(a.blocks); a.used++ {
		block := a.blocks[a.used]
		if n := len(block); cap(block)-n >= len(b) {
			a.blocks[a.used] = append(block, b...)
			return a.blocks[a.used][n : n+len(b) : n+len(b)]
		}
	}
	a.blocks = append(a.blocks, append(make([]byte, 0, max(arenaBlock, len(b))), b...))
	return a.blocks[a.used][:len(b):len(b)]
}

// reset makes all room free and lets go of what a usual commit does not need.
func (a *arena) reset() {
	kept := a.blocks[:0]
	for _, b := range a.blocks {
		if cap(b) == arenaBlock && len(kept) < arenaBlocks {
			kept = append(kept, b[:0])
		}
	}
	clear(a.blocks[len(kept):])
	a.blocks, a.used = kept, 0
}
