package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/brokers"
)

const limit = 16 << 20

func decode(t *testing.T, b []byte, from int64, aborted ...Aborted) Set {
	t.Helper()
	s, err := NewDecoder(limit).Decode(b, from, aborted)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expect(t *testing.T, s Set, next int64, want ...int64) {
	t.Helper()
	if got := offsets(s); !slices.Equal(got, want) || s.Next != next {
		t.Fatalf("offsets %v, next %d; want %v, %d", got, s.Next, want, next)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
		n := rapid.IntRange(1, 300).Draw(t, "messages")
		one := func(t *rapid.T) *brokers.Outgoing {
			m := &brokers.Outgoing{Key: bytes.Draw(t, "key"), Value: bytes.Draw(t, "value")}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				m.Headers = append(m.Headers, brokers.Header{Key: rapid.StringN(0, 8, 8).Draw(t, "name"), Value: bytes.Draw(t, "header")})
			}
			return m
		}
		some := []*brokers.Outgoing{one(t), one(t), one(t)}
		ms := make([]*brokers.Outgoing, n)
		size := 100
		for i := range ms {
			ms[i] = some[i%3]
			size += Size(ms[i])
		}
		now := time.UnixMilli(1_700_000_000_123)
		b := Append(nil, ms, now)
		if len(b) > size {
			t.Fatalf("%d bytes, Size says %d at most", len(b), size)
		}
		s, err := NewDecoder(limit).Decode(b, 0, nil)
		if err != nil || s.Next != int64(n) {
			t.Fatalf("next %d: %v", s.Next, err)
		}
		i := 0
		for _, ds := range s.Slabs {
			for _, d := range ds {
				want := ms[i]
				if d.Offset != int64(i) || !d.Time.Equal(now) || !reflect.DeepEqual(d.Key, want.Key) || !reflect.DeepEqual(d.Value, want.Value) || !reflect.DeepEqual(d.Headers, want.Headers) {
					t.Fatalf("%d: %+v, want %+v", i, d, want)
				}
				i++
			}
		}
		if i != n {
			t.Fatalf("%d of %d", i, n)
		}
	})
}

func TestNoMarkerIsHandedOut(t *testing.T) {
	b := join(t, plain(0, "a"), marker(1, 7, true), plain(2, "b"), marker(3, 7, false))
	expect(t, decode(t, b, 0), 4, 0, 2)
	expect(t, decode(t, b, 3), 4)
}

func TestAbortedRecordsAreNotHandedOut(t *testing.T) {
	in := func(offset, producer int64) built {
		x := plain(offset, "t", "t")
		x.producer, x.attributes = producer, transactional
		return x
	}
	// 7 aborts, 8 commits between, 7 begins again and commits, then aborts
	// once more at the end of the log.
	b := join(t, in(0, 7), in(2, 8), marker(4, 7, false), marker(5, 8, true), in(6, 7), marker(8, 7, true), in(9, 7), marker(11, 7, false))
	aborted := []Aborted{{7, 9}, {7, 0}}
	expect(t, decode(t, b, 0, aborted...), 12, 2, 3, 6, 7)
	// From within the last one nothing is left, and the end is reached.
	tail := join(t, in(9, 7), marker(11, 7, false))
	expect(t, decode(t, tail, 10, Aborted{7, 9}), 12)
	// A producer without transactions is not concerned by the same id.
	p := plain(0, "a")
	p.producer = 7
	expect(t, decode(t, join(t, p), 0, Aborted{7, 0}), 1, 0)
}

func TestWhatCompactionEmptiedIsPassed(t *testing.T) {
	empty := func(base, last int64) built { return built{base: base, last: last, producer: -1} }
	holes := plain(20, "a", "b")
	holes.records[1].offset, holes.last = 27, 29
	b := join(t, empty(0, 4), empty(5, 9), empty(10, 19), holes, empty(30, 39))
	expect(t, decode(t, b, 0), 40, 20, 27)
	expect(t, decode(t, b, 25), 40, 27)
	expect(t, decode(t, join(t, empty(0, 4)), 0), 5)
}

func TestTheBrokersTimeIsUsedWhereItIsKept(t *testing.T) {
	x := plain(0, "a", "b")
	x.first, x.max = 1000, 9000
	x.records[0].time, x.records[1].time = 1000, 2000
	times := func(s Set) (all []int64) {
		for _, d := range s.Slabs[0] {
			all = append(all, d.Time.UnixMilli())
		}
		return all
	}
	if got := times(decode(t, join(t, x), 0)); !slices.Equal(got, []int64{1000, 2000}) {
		t.Errorf("the producer's times: %v", got)
	}
	x.attributes = logAppendTime
	if got := times(decode(t, join(t, x), 0)); !slices.Equal(got, []int64{9000, 9000}) {
		t.Errorf("the broker's time: %v", got)
	}
}

func TestEveryCodecIsRead(t *testing.T) {
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			x := built{base: 5, producer: -1, attributes: uint16(codec)}
			for i := range 3000 {
				x.records = append(x.records, record{offset: int64(5 + i), key: fmt.Append(nil, i), value: []byte(strings.Repeat("v", i%100))})
			}
			s := decode(t, append(x.encode(t), x.encode(t)...), 1000)
			got := offsets(s)
			if s.Next != 3005 || got[0] != 1000 || got[2004] != 3004 {
				t.Fatalf("next %d, %d records", s.Next, len(got))
			}
		})
	}
}

// Java clients frame snappy blocks.
func TestFramedSnappyIsRead(t *testing.T) {
	x := plain(0, "a", "b")
	b := x.encode(t)
	body := b[headerSize:]
	framed := append([]byte{}, xerial...)
	framed = append(framed, 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range [][]byte{body[:5], body[5:]} {
		z := deflate(t, 2, part)
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(z))), z...)
	}
	b = append(slices.Clone(b[:headerSize]), framed...)
	b[22] = 2
	expect(t, decode(t, seal(b), 0), 2, 0, 1)
}

func TestACutTailIsLeftForTheNextRead(t *testing.T) {
	a, b := plain(0, "a", "b").encode(t), plain(2, "c").encode(t)
	for n := range b {
		expect(t, decode(t, append(slices.Clone(a), b[:n]...), 0), 2, 0, 1)
	}
}

func TestDamageIsAnErrorAfterWhatIsWhole(t *testing.T) {
	whole := plain(0, "a").encode(t)
	for name, spoil := range map[string]func(b []byte) []byte{
		"checksum":            func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"format":              func(b []byte) []byte { b[16] = 1; return b },
		"length":              func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 3); return b },
		"negative length":     func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31); return b },
		"codec":               func(b []byte) []byte { b[22] = 7; return seal(b) },
		"count":               func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 1<<30); return seal(b) },
		"negative count":      func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 1<<31); return seal(b) },
		"record length":       func(b []byte) []byte { b[headerSize] = 0x7f; return seal(b) },
		"negative last":       func(b []byte) []byte { binary.BigEndian.PutUint32(b[23:], 1<<31); return seal(b) },
		"offset beyond last":  func(b []byte) []byte { b[headerSize+3] = 40; return seal(b) },
		"key beyond record":   func(b []byte) []byte { b[headerSize+4] = 100; return seal(b) },
		"marker without type": func(b []byte) []byte { b[22] = control; return seal(b) },
	} {
		t.Run(name, func(t *testing.T) {
			b := append(slices.Clone(whole), spoil(plain(1, "b").encode(t))...)
			s, err := NewDecoder(limit).Decode(b, 0, nil)
			var damage *CorruptError
			if !errors.As(err, &damage) || damage.Offset != 1 {
				t.Fatalf("error %v", err)
			}
			expect(t, s, 1, 0)
		})
	}
}

func TestNothingLargerThanTheBoundIsDecompressed(t *testing.T) {
	for codec, name := range []string{1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"} {
		if codec == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			x := built{producer: -1, attributes: uint16(codec), records: []record{{value: make([]byte, 64<<20)}}}
			b := x.encode(t)
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := NewDecoder(1<<20).Decode(b, 0, nil)
			runtime.ReadMemStats(&after)
			if !errors.As(err, new(*CorruptError)) {
				t.Fatalf("error %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

func TestOneKeptMessageKeepsLittleElse(t *testing.T) {
	x := built{producer: -1}
	for i := range 20_000 {
		x.records = append(x.records, record{offset: int64(i), value: make([]byte, 200)})
	}
	b := join(t, x)
	x.records = nil
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	kept := func() []*brokers.Delivery {
		s := decode(t, b, 0)
		return []*brokers.Delivery{&s.Slabs[3][7]}
	}()
	if n := used() - before; n > 256<<10 {
		t.Errorf("%d KiB hang on one delivery", n>>10)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(b)
}

func TestOnlyWhatIsWantedIsKept(t *testing.T) {
	d := NewDecoder(limit)
	d.Only = func(o int64) bool { return o == 1 || o == 3 }
	s, err := d.Decode(join(t, plain(0, "a", "b"), plain(2, "c", "d")), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, 4, 1, 3)
	d = NewDecoder(limit)
	d.MaxBytes = 1
	if s, err = d.Decode(join(t, plain(0, "a", "b"), plain(2, "c", "d")), 0, nil); err != nil {
		t.Fatal(err)
	}
	expect(t, s, 2, 0, 1)
}

func TestDecodingAllocatesLessThanOnceInTenMessages(t *testing.T) {
	x := built{producer: -1}
	for i := range 2000 {
		x.records = append(x.records, record{offset: int64(i), key: []byte("key"), value: make([]byte, 200)})
	}
	b := join(t, x)
	d := NewDecoder(limit)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := d.Decode(b, 0, nil); err != nil {
			t.Fatal(err)
		}
	}); n > 200 {
		t.Errorf("%v allocations for 2000 messages", n)
	}
}

func FuzzDecode(f *testing.F) {
	for codec := range 5 {
		x := plain(3, "a", "bb", "ccc")
		x.attributes = uint16(codec)
		x.records[1].headers = []brokers.Header{{Key: "h", Value: []byte("v")}}
		f.Add(x.encode(f), int64(4), int64(7))
	}
	f.Add(join(f, plain(0, "a"), marker(1, 7, false), built{base: 2, last: 9}), int64(0), int64(7))
	f.Fuzz(func(t *testing.T, b []byte, from, producer int64) {
		if len(b) > headerSize {
			// Otherwise nothing gets past the checksum.
			if n := int64(int32(binary.BigEndian.Uint32(b[8:]))); n >= headerSize-12 && n <= int64(len(b)-12) {
				seal(b[:n+12])
			}
		}
		s, _ := NewDecoder(1<<20).Decode(b, from, []Aborted{{producer, 0}})
		last := from - 1
		for _, o := range offsets(s) {
			if o <= last {
				t.Fatalf("offset %d after %d", o, last)
			}
			last = o
		}
		if s.Next < from {
			t.Fatalf("next %d, from %d", s.Next, from)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	x := built{producer: -1}
	for i := range 5000 {
		x.records = append(x.records, record{offset: int64(i), key: []byte("key-1234"), value: make([]byte, 200)})
	}
	buf := x.encode(b)
	d := NewDecoder(limit)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(buf, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/message")
}
