package dedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// panicky is an error and a value of which nothing can be asked.
type panicky struct{}

func (panicky) Error() string                { panic("Error") }
func (panicky) Is(error) bool                { panic("Is") }
func (panicky) As(any) bool                  { panic("As") }
func (panicky) Unwrap() error                { panic("Unwrap") }
func (panicky) MarshalJSON() ([]byte, error) { panic("MarshalJSON") }

type unreadable struct{}

func (*unreadable) UnmarshalJSON([]byte) error { panic("UnmarshalJSON") }

func TestWhatPanicsAboutAFailureIsAFailure(t *testing.T) {
	for name, g := range map[string]*dedup.Guard{
		"the error": newGuard(memstore.New()),
		"Classify":  {Store: memstore.New(), Consumer: "mailer", Classify: func(error) dedup.Outcome { panic("Classify") }},
		"Redact":    {Store: memstore.New(), Consumer: "mailer", Redact: func(error) string { panic("Redact") }},
	} {
		var failure error = panicky{}
		if name != "the error" {
			failure = errors.New("card 4111")
		}
		g.Failures = 2
		for range 2 {
			if _, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 0, failure }); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		_, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil })
		var failed *dedup.FailedError
		if !errors.As(err, &failed) || failed.Reason != "exhausted" || !e.Replayed {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if kept := failed != nil && strings.Contains(failed.Text, "4111"); kept != (name == "Classify") {
			t.Errorf("%s: the text %q is kept", name, failed.Text)
		}
	}
}

// The function has succeeded, whatever its value does when it is kept.
func TestAResultThatPanicsDoesNotRunAgain(t *testing.T) {
	g := newGuard(memstore.New())
	runs := 0
	call := func() (panicky, dedup.Execution, error) {
		return dedup.Do(t.Context(), g, invoice, func(context.Context) (panicky, error) { runs++; return panicky{}, nil })
	}
	if _, e, err := call(); err != nil || e.Unkept == nil || !strings.Contains(e.Unkept.Error(), "MarshalJSON") {
		t.Errorf("first: %+v, %v", e, err)
	}
	if _, _, err := call(); !errors.Is(err, dedup.ErrUnkept) {
		t.Errorf("second: %v", err)
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestAResultThatCannotBeReadBackIsAnError(t *testing.T) {
	g := newGuard(memstore.New())
	call := func() error {
		_, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (unreadable, error) { return unreadable{}, nil })
		return err
	}
	if err := call(); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := call(); err == nil || !strings.Contains(err.Error(), "UnmarshalJSON") {
		t.Errorf("second: %v", err)
	}
}
