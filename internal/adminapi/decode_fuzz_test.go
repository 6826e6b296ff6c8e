package adminapi_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/internal/adminapi"
)

// seeds adds what is kept in testdata.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// again decodes what v is written as, which must be v: the same once more.
func again[T any](t *testing.T, v *T) {
	t.Helper()
	b, err := adminapi.Encode(v)
	if err != nil {
		t.Fatalf("%+v was read and cannot be written: %v", v, err)
	}
	var back T
	if err := adminapi.Decode(b, &back); err != nil {
		t.Fatalf("%s was written and cannot be read: %v", b, err)
	}
	if b2, err := adminapi.Encode(&back); err != nil || !bytes.Equal(b, b2) {
		t.Fatalf("%s is read as\n%s, %v", b, b2, err)
	}
}

// What a server says, whoever it is.
func FuzzAnAnswerIsReadOrRefused(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var line adminapi.Line
		if adminapi.DecodeAnswer(b, &line) == nil {
			again(t, &line)
			if line.Record != nil {
				_ = line.Record.Dedup()
			}
			if line.Letter != nil {
				_ = line.Letter.Dedup()
			}
			if line.Answer != nil {
				_ = line.Answer.Dedup()
			}
			if line.Error != nil {
				_ = line.Error.Err().Error()
			}
		}
		var consumer adminapi.Consumer
		if adminapi.Decode(b, &consumer) == nil {
			again(t, &consumer)
		}
		var failure adminapi.Failure
		if adminapi.Decode(b, &failure) == nil {
			again(t, &failure)
		}
		var errs adminapi.PublishResponse
		if adminapi.Decode(b, &errs) == nil {
			again(t, &errs)
		}
	})
}

// What a client says, whoever it is.
func FuzzARequestIsReadOrRefused(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var apply adminapi.ApplyRequest
		if adminapi.Decode(b, &apply) == nil {
			again(t, &apply)
			for i := range apply.Ops {
				if op, err := apply.Ops[i].Dedup(); err == nil {
					if !adminapi.Allowed(op.Kind) {
						t.Fatalf("%v came through", op.Kind)
					}
					_ = op.Validate()
				}
			}
		}
		var publish adminapi.PublishRequest
		if adminapi.Decode(b, &publish) == nil {
			again(t, &publish)
		}
		var records adminapi.RecordsRequest
		if adminapi.Decode(b, &records) == nil {
			again(t, &records)
		}
	})
}
