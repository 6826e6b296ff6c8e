//go:build unix

package interrupt

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSignalsThatComeTogetherAreOneRequest(t *testing.T) {
	again := make(chan os.Signal, 1)
	ctx := Context(func(s os.Signal) { again <- s })
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGTERM)
	<-ctx.Done()
	send(syscall.SIGTERM)
	select {
	case s := <-again:
		t.Fatalf("%v is taken for another request", s)
	case <-time.After(2 * same): // in real time: signals are not in a bubble
	}
	send(syscall.SIGINT)
	if s := <-again; s != syscall.SIGINT {
		t.Errorf("asked again by %v", s)
	}
}
