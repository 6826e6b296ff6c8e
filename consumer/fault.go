package consumer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/cut"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Field string // such as Routes[2].Scope
	Wrong string // what is there: "is 0"
	Right string // what would be right: "1 to 10,000"
}

func (f Fault) String() string { return f.Field + " " + f.Wrong + "; right would be: " + f.Right }

// ConfigError lists everything that is wrong with a configuration.
type ConfigError struct {
	Consumer string
	Faults   []Fault
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "consumer %s: %d faults in its configuration:", quoteBounded(e.Consumer), len(e.Faults))
	if len(e.Faults) == 1 {
		b.Reset()
		fmt.Fprintf(&b, "consumer %s: a fault in its configuration:", quoteBounded(e.Consumer))
	}
	for _, f := range e.Faults {
		b.WriteString("\n\t")
		b.WriteString(f.String())
	}
	return b.String()
}

// faults gathers, so that a user mends a configuration once.
type faults []Fault

func (f *faults) add(field, wrong, right string) {
	*f = append(*f, Fault{Field: field, Wrong: wrong, Right: right})
}

// intRange sets *v to its default when it is zero, and notes a fault when it
// is outside of the range, bounds included.
func intRange(f *faults, field string, v *int, fallback, low, high int) {
	if *v == 0 {
		*v = fallback
	}
	if *v < low || *v > high {
		f.add(field, fmt.Sprintf("is %d", *v), fmt.Sprintf("%d to %d; 0 for the default %d", low, high, fallback))
	}
}

func durationRange(f *faults, field string, v *time.Duration, fallback, low, high time.Duration) {
	if *v == 0 {
		*v = fallback
	}
	if *v < low || *v > high {
		f.add(field, fmt.Sprintf("is %v", *v), fmt.Sprintf("%v to %v; 0 for the default %v", low, high, fallback))
	}
}

// floatRange refuses NaN too: no comparison with it is true.
func floatRange(f *faults, field string, v *float64, fallback, low, high float64) {
	if *v == 0 {
		*v = fallback
	}
	if !(*v >= low && *v <= high) {
		f.add(field, fmt.Sprintf("is %v", *v), fmt.Sprintf("%v to %v; 0 for the default %v", low, high, fallback))
	}
}

// quoteBounded quotes a text that came from outside for an error, cut to what
// a person reads.
func quoteBounded(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(cut.Text(s, most)) + "…"
	}
	return strconv.Quote(s)
}
