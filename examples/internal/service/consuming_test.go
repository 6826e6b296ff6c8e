package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
)

func TestWhereASettingMendsItTheFlagIsNamed(t *testing.T) {
	missing := &brokers.StartError{What: `open stream "ORDERS"`, Wrong: "it does not exist", Mend: "set Create, or: nats stream add ORDERS"}
	if err := withFlag(fmt.Errorf("run: %w", missing)); !strings.Contains(err.Error(), "--create") || !errors.Is(err, missing) {
		t.Errorf("%v", err)
	}
	for _, err := range []error{nil, errors.New("other"), &brokers.StartError{What: "join", Mend: "wait"}} {
		if got := withFlag(err); !errors.Is(got, err) || got != nil && got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
}
