package adminapi_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// filler sets every field of a value, so that one which a conversion forgets
// comes back empty.
type filler struct{ *rand.Rand }

// names are the closed lists, with their last value.
var names = map[reflect.Type]uint64{
	reflect.TypeFor[dedup.State]():        uint64(dedup.Tombstone),
	reflect.TypeFor[dedup.LetterState]():  uint64(dedup.LetterGone),
	reflect.TypeFor[dedup.Kind]():         uint64(dedup.Sweep),
	reflect.TypeFor[dedup.Outcome]():      uint64(dedup.Skip),
	reflect.TypeFor[dedup.AnswerKind]():   uint64(dedup.Continued),
	reflect.TypeFor[dedup.IntentStatus](): uint64(dedup.Confirmed),
	reflect.TypeFor[dedup.Verdict]():      uint64(dedup.RunAgain),
}

var texts = []string{"order.create", "bestellung-✓", "\xff\xfe\x00", "line\nend\"\\", "\ufffd", "<script>", "\u2028"}

func (f filler) fill(v reflect.Value) {
	if last, ok := names[v.Type()]; ok {
		v.SetUint(1 + f.Uint64N(last))
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(f.Int64N(1<<33)-1<<32, f.Int64N(1e9)).UTC()
		if f.IntN(8) == 0 {
			*x = time.UnixMilli(f.Int64() >> f.IntN(8)).UTC() // as a broken producer sends one
		}
		return
	case *[]byte:
		*x = [][]byte{nil, {}, {0}, []byte("{}"), {0xff, 0, 0x80}}[f.IntN(5)]
		return
	case *string:
		*x = texts[f.IntN(len(texts))]
		return
	case *adminapi.Text:
		*x = adminapi.Text(texts[f.IntN(len(texts))])
		return
	case *adminapi.Time:
		*x = adminapi.Time(time.Unix(f.Int64N(1<<33), f.Int64N(1e9)).UTC())
		return
	case *error, *any, *[]any:
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		// Each field by its own name, so that a new one changes no other.
		seed := f.Uint64()
		for i := range v.NumField() {
			h := fnv.New64a()
			_, _ = h.Write([]byte(v.Type().Field(i).Name)) // it has no error to give
			filler{rand.New(rand.NewPCG(seed, h.Sum64()))}.fill(v.Field(i))
		}
	case reflect.Slice:
		if f.IntN(8) > 0 {
			n := f.IntN(3)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, text := range texts {
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value)
			v.SetMapIndex(reflect.ValueOf(text), value)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + f.Uint64()%((1<<v.Type().Bits())-1))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.Uint64())>>(64-v.Type().Bits()) | 1)
	case reflect.Float64:
		v.SetFloat(f.Float64())
	default:
		panic(fmt.Sprintf("no way to fill a %v", v.Type()))
	}
}

func filled[T any](seed uint64) (v T) {
	filler{rand.New(rand.NewPCG(seed, 7))}.fill(reflect.ValueOf(&v).Elem())
	return v
}

// through is what the other side makes of v.
func through[T any](t *testing.T, v *T) *T {
	t.Helper()
	b, err := adminapi.Encode(v)
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	var out T
	if err := adminapi.Decode(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return &out
}

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("came back as\n%+v, was\n%+v", got, want)
	}
}

func TestWhatIsSentComesBackAsItWas(t *testing.T) {
	for seed := range uint64(60) {
		r := filled[dedup.Record](seed)
		same(t, r, through(t, adminapi.OfRecord(&r)).Dedup())

		l := filled[dedup.Letter](seed)
		same(t, l, through(t, adminapi.OfLetter(&l)).Dedup())

		a := filled[dedup.Answer](seed)
		same(t, a, through(t, adminapi.OfAnswer(&a)).Dedup())

		op := operation(seed)
		sent, err := adminapi.OfOp(&op)
		if err != nil {
			t.Fatal(err)
		}
		back, err := through(t, &sent).Dedup()
		if err != nil {
			t.Fatal(err)
		}
		same(t, op, back)

		d := filled[brokers.Delivery](seed)
		d.Lane.Mark = "" // which is not handed out
		same(t, d, *through(t, adminapi.OfDelivery(&d)).Broker(through(t, adminapi.OfLane(d.Lane)).Broker()))

		o := filled[brokers.Outgoing](seed)
		out := adminapi.OfOutgoing(&o)
		same(t, o, through(t, &out).Broker())

		info := filled[brokers.TopicInfo](seed)
		topic := adminapi.OfTopicInfo(&info)
		same(t, info, through(t, &topic).Broker())

		i := filled[dedup.Info](seed)
		store := adminapi.OfInfo(i)
		same(t, i, through(t, &store).Dedup())

		p := filled[dedup.Pause](seed)
		pause := adminapi.OfPause(p)
		same(t, p, through(t, &pause).Dedup(p.Consumer))
	}
}

// operation is an operator's, with all that such a one may have.
func operation(seed uint64) dedup.Op {
	kinds := []dedup.Kind{
		dedup.NoteLetter, dedup.MoveLetter, dedup.SendNoted, dedup.Unlock, dedup.Delete, dedup.Import, dedup.Reconcile, dedup.Reopen,
	}
	letter, operator := filled[dedup.LetterOp](seed), filled[dedup.OperatorOp](seed)
	letter.Settles = false // only the consumer itself knows
	return dedup.Op{Kind: kinds[seed%uint64(len(kinds))], Key: filled[dedup.Key](seed), Letter: &letter, Operator: &operator}
}

func TestOperationsOfClaimantsOwnersAndRunnersDoNotTravel(t *testing.T) {
	allowed := 0
	for kind := dedup.Kind(0); kind <= dedup.Sweep+1; kind++ {
		_, err := adminapi.OfOp(&dedup.Op{Kind: kind})
		_, err2 := (&adminapi.Op{Kind: adminapi.Kind(kind)}).Dedup()
		if (err == nil) != adminapi.Allowed(kind) || (err2 == nil) != adminapi.Allowed(kind) {
			t.Errorf("%v: %v, %v", kind, err, err2)
		}
		if err == nil {
			allowed++
		}
	}
	if allowed != 8 {
		t.Errorf("%d kinds are allowed, want 8", allowed)
	}
	twice := adminapi.Op{Kind: adminapi.Kind(dedup.Reopen), Operator: &adminapi.OperatorOp{Decide: []adminapi.Decision{{Effect: "charge"}, {Effect: "charge"}}}}
	if _, err := twice.Dedup(); !errors.Is(err, dedup.ErrInvalidOp) {
		t.Errorf("an effect decided twice: %v", err)
	}
}

func TestAnErrorIsFoundAgainOnTheOtherSide(t *testing.T) {
	for _, is := range []error{
		brokers.ErrTooLarge, brokers.ErrNoDestination, brokers.ErrUnauthorized, brokers.ErrUnknownOutcome,
		dedup.ErrClosed, dedup.ErrFull, dedup.ErrInvalidOp,
	} {
		err := fmt.Errorf("publish to %q: %w", "orders", is)
		got := through(t, adminapi.OfError(err)).Err()
		if !errors.Is(got, is) || got.Error() != err.Error() {
			t.Errorf("%v came back as %v", err, got)
		}
	}
	if err := adminapi.OfError(nil).Err(); err != nil {
		t.Error(err)
	}
	both := fmt.Errorf("%w: %w", brokers.ErrTooLarge, brokers.ErrUnknownOutcome)
	if got := adminapi.OfError(both).Err(); !errors.Is(got, brokers.ErrUnknownOutcome) || errors.Is(got, brokers.ErrTooLarge) {
		t.Errorf("what may have been stored came back as %v", got)
	}
	damaged := &dedup.DamagedError{Where: "billing.db", What: "page 7", Lost: "a day", Mend: "restore"}
	if got := adminapi.OfError(damaged).Err(); !errors.Is(got, adminapi.ErrDamaged) || !strings.Contains(got.Error(), "page 7") {
		t.Errorf("%v", got)
	}
	for _, other := range []error{io.ErrUnexpectedEOF, context.Canceled} {
		if got := adminapi.OfError(other); got.Code != adminapi.CodeOther || got.Err().Error() != other.Error() {
			t.Errorf("%v came back as %+v", other, got)
		}
	}
}

func TestAnErrorTextIsOneBoundedLineWithoutControlCharacters(t *testing.T) {
	hostile := &adminapi.Fault{Message: adminapi.Text("a\x1b[2J\r\nb\u202e\x9b\xff" + strings.Repeat("ü", 10_000))}
	got := hostile.Err().Error()
	if len(got) > 2<<10 || strings.ContainsAny(got, "\x1b\r\n\u202e\u009b\ufffd") || !strings.HasPrefix(got, "a") {
		t.Errorf("%d bytes: %q", len(got), got[:40])
	}
	if got := (&adminapi.Fault{}).Err().Error(); got == "" {
		t.Error("an error without a text")
	}
}

func TestAFieldOrNameThatIsNotKnownIsNamed(t *testing.T) {
	for _, c := range []struct{ json, says string }{
		{`{"ops":[],"novel":1}`, "novel"},
		{`{"ops":[{"kind":"move_letter","key":{"consumer":"c"},"novel":1}]}`, "novel"},
		{`{"ops":[{"kind":"teleport","key":{"consumer":"c"}}]}`, "teleport"},
		{`{"ops":[{"kind":7,"key":{"consumer":"c"}}]}`, "/ops/0/kind"},
		{`{"ops":[{"kind":"unlock","kind":"delete","key":{"consumer":"c"}}]}`, "duplicate"},
		{`{"ops":[{"kind":"unlock","key":{"consumer":{"base64":"YQ=="}}}]}`, "must be a string"},
		{`{"ops":[{"kind":"unlock","key":{"consumer":{"base64":"/w==","novel":1}}}]}`, "novel"},
		{`{"ops":[]} {}`, "after top-level"},
		{`{"ops":[`, "EOF"},
		{"{\"ops\":[{\"kind\":\"\xff\"}]}", "UTF-8"},
		{`{"ops":[{"kind":"reopen","key":{"consumer":"c"},"operator":{"seen":{"state":"failed"},"expires":"soon"}}]}`, "RFC 3339"},
		{`{"ops":[{"kind":"reopen","key":{"consumer":"c"},"operator":{"seen":{"state":"failed"},"window":"long"}}]}`, "duration"},
		{`{"ops":[{"kind":"reopen","key":{"consumer":"c"},"operator":{"seen":{"state":"failed"},"fingerprint":{"sum":"00"}}}]}`, "digits"},
	} {
		var v adminapi.ApplyRequest
		err := adminapi.Decode([]byte(c.json), &v)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "adminapi") {
			t.Errorf("%s: %v, want an error that says %q", c.json, err, c.says)
		}
		if strings.Contains(c.json, "novel") && !errors.Is(err, adminapi.ErrField) {
			t.Errorf("%s: %v is no ErrField", c.json, err)
		}
	}
}
