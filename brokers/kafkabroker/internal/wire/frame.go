package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// step is how much is made room for before the bytes have come: a peer that
// lies about a size costs no more than this.
const step = 1 << 20

// ReadFrame reads one answer, its size word not included, into buf where that
// is large enough. Memory grows with what arrives, not with what was announced.
//
// Errors: of r; one that names the size when it is over limit or negative.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < 0 || size > int64(limit) {
		return nil, &SizeError{Size: size, Limit: limit}
	}
	n := int(size)
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		if cap(buf) < n {
			grown := make([]byte, have, min(n, max(2*have, step)))
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// SizeError is an answer that is larger than what was asked for can be.
type SizeError struct {
	Size  int64
	Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("answer of %d bytes, at most %d make sense", e.Size, e.Limit)
}
