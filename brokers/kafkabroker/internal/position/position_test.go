package position_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/position"
)

// The model is a list of all offsets and what of them is settled.
func TestThePositionNeverPassesWhatIsNotSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var track position.Track
		at := int64(rapid.IntRange(0, 1000).Draw(t, "start"))
		track.Reset(at)
		type open struct {
			offset int64
			span   *position.Span
		}
		var left, all []open
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // a batch, with or without holes, and what was passed after it
				var offsets []int64
				holes := rapid.Bool().Draw(t, "holes")
				for range rapid.IntRange(1, position.MaxSpan).Draw(t, "records") {
					if holes {
						at += int64(rapid.IntRange(0, 3).Draw(t, "hole"))
					}
					offsets = append(offsets, at)
					at++
				}
				span := track.Add(len(offsets), func(i int) int64 { return offsets[i] }, nil)
				for _, o := range offsets {
					left, all = append(left, open{o, span}), append(all, open{o, span})
				}
				at += int64(rapid.IntRange(0, 2).Draw(t, "passed"))
				track.Pass(at)
			default:
				for range rapid.IntRange(0, 300).Draw(t, "settle") {
					if len(left) == 0 {
						break
					}
					i := rapid.IntRange(0, len(left)-1).Draw(t, "which")
					if !left[i].span.Settle(left[i].offset) {
						t.Fatalf("offset %d is not taken", left[i].offset)
					}
					left = slices.Delete(left, i, i+1)
				}
			}
			want := at
			for _, o := range left {
				want = min(want, o.offset)
			}
			if got := track.Next(); got != want {
				t.Fatalf("next %d, want %d", got, want)
			}
		}
		for _, o := range all {
			if o.span.Settled(o.offset) == slices.Contains(left, o) {
				t.Fatalf("offset %d: settled %v", o.offset, o.span.Settled(o.offset))
			}
			if o.span.Settled(o.offset) && o.span.Settle(o.offset) {
				t.Fatalf("offset %d is settled twice", o.offset)
			}
		}
	})
}

func TestAnOffsetThatIsNotThereIsNotSettled(t *testing.T) {
	var track position.Track
	span := track.Add(3, func(i int) int64 { return []int64{5, 7, 9}[i] }, nil)
	for _, o := range []int64{4, 6, 8, 10, -1} {
		if span.Settle(o) {
			t.Errorf("offset %d is taken", o)
		}
	}
	if track.Next() != 5 {
		t.Fatalf("next %d", track.Next())
	}
}
