package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var errInflated = errors.New("larger than the bound when decompressed")

// inflater decompresses batches. kafka-go's own codecs trust the lengths that
// snappy and zstd announce; here a bound holds whatever the bytes say.
type inflater struct {
	limit int
	out   []byte // used again for each batch
	gzip  *gzip.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
}

// inflate returns the records of a batch. They are overwritten by the next call.
func (f *inflater) inflate(codec uint16, body []byte) ([]byte, error) {
	switch codec {
	case 0:
		return body, nil
	case 1:
		return f.gunzip(body)
	case 2:
		return f.unsnap(body)
	case 3:
		if f.lz4 == nil {
			f.lz4 = lz4.NewReader(nil)
		}
		f.lz4.Reset(bytes.NewReader(body))
		return f.read(f.lz4)
	case 4:
		return f.unzstd(body)
	}
	return nil, fmt.Errorf("compression %d is not known", codec)
}

func (f *inflater) gunzip(body []byte) ([]byte, error) {
	if f.gzip == nil {
		f.gzip = new(gzip.Reader)
	}
	if err := f.gzip.Reset(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	return f.read(f.gzip)
}

func (f *inflater) unzstd(body []byte) ([]byte, error) {
	if f.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(f.limit)), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		f.zstd = d
	}
	if err := f.zstd.Reset(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	return f.read(f.zstd)
}

// read fills out, which grows with what is there.
func (f *inflater) read(r io.Reader) ([]byte, error) {
	if f.out == nil {
		f.out = make([]byte, 0, 64<<10)
	}
	out := f.out[:0]
	for {
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if len(out) > f.limit {
			return nil, errInflated
		}
		if err == io.EOF {
			f.out = out
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// xerial begins the framing that Java clients put around snappy blocks.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// xerialHeader is magic, version and lowest compatible version.
const xerialHeader = 16

func (f *inflater) unsnap(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, xerial) {
		f.out = f.out[:0]
		return f.block(body)
	}
	if len(body) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	f.out = f.out[:0]
	for body = body[xerialHeader:]; len(body) > 0; {
		if len(body) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(body)
		if uint64(n) > uint64(len(body)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		if _, err := f.block(body[4 : 4+n]); err != nil {
			return nil, err
		}
		body = body[4+n:]
	}
	return f.out, nil
}

// block appends one snappy block to out.
func (f *inflater) block(b []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return nil, err
	}
	have := len(f.out)
	if n > f.limit-have {
		return nil, errInflated
	}
	// A block expands at most 64/3 times by its format; what claims more lies.
	if n > 64*len(b)+64 {
		return nil, snappy.ErrCorrupt
	}
	if cap(f.out)-have < n {
		f.out = append(make([]byte, 0, have+n), f.out...)
	}
	if _, err := snappy.Decode(f.out[have:have+n:cap(f.out)], b); err != nil {
		return nil, err
	}
	f.out = f.out[:have+n]
	return f.out, nil
}
