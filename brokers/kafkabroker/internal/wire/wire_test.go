package wire_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

func TestALengthThatDoesNotFitIsAFaultAndCostsNothing(t *testing.T) {
	for name, read := range map[string]func(*wire.Reader){
		"bytes":           func(r *wire.Reader) { r.Bytes() },
		"string":          func(r *wire.Reader) { _ = r.String() },
		"compact bytes":   func(r *wire.Reader) { r.CompactBytes() },
		"compact string":  func(r *wire.Reader) { r.CompactString() },
		"record bytes":    func(r *wire.Reader) { r.Take(1); r.VarBytes() },
		"array":           func(r *wire.Reader) { r.Count(4) },
		"compact array":   func(r *wire.Reader) { r.CompactCount(4) },
		"record array":    func(r *wire.Reader) { r.Take(1); r.VarCount(4) },
		"tags":            func(r *wire.Reader) { r.SkipTags() },
		"number":          func(r *wire.Reader) { r.Int64(); r.Int64() },
		"endless varint":  func(r *wire.Reader) { r.Take(2); r.Uvarint() },
		"negative length": func(r *wire.Reader) { r.Take(-1) },
	} {
		r := wire.NewReader([]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		read(&r)
		if !errors.Is(r.Err(), wire.ErrMalformed) || r.Len() != 0 || r.Int32() != 0 {
			t.Errorf("%s: %v, %d left", name, r.Err(), r.Len())
		}
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	b := wire.AppendInt16(nil, -2)
	b = wire.AppendInt32(b, -3)
	b = wire.AppendInt64(b, -4)
	b = wire.AppendBytes(b, nil)
	b = wire.AppendBytes(b, []byte{})
	b = wire.AppendVarBytes(b, nil)
	b = wire.AppendVarBytes(b, []byte("v"))
	b = wire.AppendString(b, "s")
	b = wire.AppendCompactString(b, "c")
	r := wire.NewReader(b)
	if r.Int16() != -2 || r.Int32() != -3 || r.Int64() != -4 {
		t.Error("numbers")
	}
	if r.Bytes() != nil || r.Bytes() == nil || r.VarBytes() != nil || string(r.VarBytes()) != "v" {
		t.Error("null and empty bytes")
	}
	if r.String() != "s" || r.CompactString() != "c" || r.Len() != 0 || r.Err() != nil {
		t.Error("strings")
	}
}

func TestAFrameCostsWhatArrivesNotWhatWasAnnounced(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := wire.ReadFrame(bytes.NewReader([]byte{0x3f, 0xff, 0xff, 0xff, 1, 2, 3}), nil, 1<<30)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes", used)
	}
	var size *wire.SizeError
	if _, err := wire.ReadFrame(bytes.NewReader([]byte{0, 0, 0, 9}), nil, 8); !errors.As(err, &size) {
		t.Errorf("error %v", err)
	}
	if _, err := wire.ReadFrame(bytes.NewReader([]byte{0xff, 0, 0, 9}), nil, 8); !errors.As(err, &size) {
		t.Errorf("error %v", err)
	}
	big := bytes.Repeat([]byte{7}, 3<<20)
	got, err := wire.ReadFrame(bytes.NewReader(append(wire.AppendInt32(nil, int32(len(big))), big...)), nil, 1<<30)
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
