package serial_test

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/internal/serial"
)

func TestWhatWaitsIsCalledInOrderAlsoAfterStop(t *testing.T) {
	q := serial.New()
	var got []int
	for i := range 3 {
		q.Call(func() { got = append(got, i) })
	}
	q.Stop()
	q.Call(func() { got = append(got, 99) })
	q.Run()
	<-q.Done()
	if !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatal(got)
	}
}

func TestWhatIsDroppedIsNotCalled(t *testing.T) {
	q := serial.New()
	q.Call(func() { t.Error("called") })
	q.Drop()
	go q.Run()
	<-q.Done()
}
