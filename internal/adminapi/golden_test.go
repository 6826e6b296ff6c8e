package adminapi_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

var update = flag.Bool("update", false, "write testdata anew")

// samples are one value of each type that travels, with every field set.
func samples(t *testing.T) map[string]any {
	r, l, a, op := filled[dedup.Record](6), filled[dedup.Letter](3), filled[dedup.Answer](2), operation(7)
	d, o, info := filled[brokers.Delivery](4), filled[brokers.Outgoing](12), filled[brokers.TopicInfo](2)
	sent, err := adminapi.OfOp(&op)
	if err != nil {
		t.Fatal(err)
	}
	count := int64(2)
	fault := &adminapi.Fault{Code: adminapi.CodeRole, Message: "needs the role approve", Need: "approve"}
	a.Err = dedup.ErrFull
	return map[string]any{
		"record":   &adminapi.Line{Record: adminapi.OfRecord(&r)},
		"letter":   &adminapi.Line{Letter: adminapi.OfLetter(&l)},
		"answer":   &adminapi.Line{Answer: adminapi.OfAnswer(&a)},
		"lane":     &adminapi.Line{Lane: adminapi.OfLane(d.Lane)},
		"message":  &adminapi.Line{Message: adminapi.OfDelivery(&d)},
		"alive":    &adminapi.Line{Alive: true},
		"end":      &adminapi.Line{End: true, Count: &count},
		"cut":      &adminapi.Line{Error: fault},
		"failure":  &adminapi.Failure{Error: *fault},
		"records":  &adminapi.RecordsRequest{Keys: []adminapi.Key{{Consumer: "billing", Scope: "order.create", ID: "A-1"}, {Consumer: "billing", Scope: "s", ID: "\xff"}}},
		"letters":  &adminapi.LettersRequest{IDs: []adminapi.Text{"00112233", "\xff"}},
		"apply":    &adminapi.ApplyRequest{Ops: []adminapi.Op{sent}},
		"inspect":  &adminapi.InspectRequest{Topics: []adminapi.Text{"orders"}},
		"topics":   &adminapi.InspectResponse{Topics: []adminapi.TopicInfo{adminapi.OfTopicInfo(&info)}},
		"publish":  &adminapi.PublishRequest{Messages: []adminapi.Outgoing{adminapi.OfOutgoing(&o)}},
		"errors":   &adminapi.PublishResponse{Errors: []*adminapi.Fault{nil, adminapi.OfError(brokers.ErrTooLarge)}},
		"pause":    &adminapi.PauseRequest{Scope: "order.create", Why: "release"},
		"paused":   &adminapi.PauseResponse{Changed: true},
		"pauses":   &adminapi.PausesResponse{Pauses: []adminapi.Pause{adminapi.OfPause(filled[dedup.Pause](1))}},
		"stats":    new(filled[adminapi.Stats](3)),
		"consumer": new(filled[adminapi.Consumer](4)),
	}
}

// A peer of another release reads what is kept here, and writes it.
func TestTheJSONIsAsItWasPublished(t *testing.T) {
	for name, v := range samples(t) {
		got, err := adminapi.Encode(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pretty := jsontext.Value(bytes.Clone(got))
		if err := pretty.Indent(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(path, append(pretty, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(golden) != string(pretty)+"\n" {
			t.Errorf("%s is written as\n%s\nand was published as\n%s", name, pretty, golden)
		}
		back := reflect.New(reflect.TypeOf(v).Elem())
		if err := adminapi.Decode(golden, back.Interface()); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if again, err := adminapi.Encode(back.Interface()); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s is read as\n%s, %v, want\n%s", name, again, err, got)
		}
	}
}
