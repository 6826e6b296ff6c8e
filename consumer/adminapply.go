package consumer

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// apply hands operations to the store, all of them or none: a request with one
// that its caller may not do is refused whole.
func (a *admin) apply(w http.ResponseWriter, r *request) *refusal {
	var q adminapi.ApplyRequest
	if refusal := readBody(w, r, &q); refusal != nil {
		return refusal
	}
	if refusal := tooMany(len(q.Ops), "operations", adminapi.MaxOps); refusal != nil {
		return refusal
	}
	ops, refusal := a.operations(q.Ops, r.caller)
	if refusal == nil {
		refusal = a.writable()
	}
	if refusal != nil {
		return refusal
	}
	answers, refusal := a.applied(r, ops)
	if refusal != nil {
		return refusal
	}
	return stream(w, r, func(_ context.Context, l *lines) error {
		for i := range answers {
			if err := l.send(&adminapi.Line{Answer: adminapi.OfAnswer(&answers[i])}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *admin) applied(r *request, ops []dedup.Op) ([]dedup.Answer, *refusal) {
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	if refusal := a.may(ctx, r.caller, ops); refusal != nil {
		return nil, refusal
	}
	answers, err := dedup.Apply(ctx, a.c.cfg.Store, ops)
	if err != nil {
		a.log.Error("admin operations failed", "who", r.who, "operations", summary(ops, nil), "error", err)
		return nil, failed(err)
	}
	a.log.Info("admin operations", "who", r.who, "operations", summary(ops, answers))
	return answers, nil
}

// operations are those of a request as the store takes them, with who asks.
func (a *admin) operations(in []adminapi.Op, by caller) ([]dedup.Op, *refusal) {
	ops := make([]dedup.Op, len(in))
	for i := range in {
		op, err := in[i].Dedup()
		switch {
		case err != nil:
			return nil, refuse(http.StatusBadRequest, adminapi.CodeInvalidOp, fmt.Sprintf("operation %d: %v", i, err))
		case op.Key.Consumer != a.c.cfg.Name:
			return nil, a.foreign(op.Key.Consumer)
		}
		if op.Letter != nil {
			op.Letter.Letter.Who = by.who
		}
		if op.Operator != nil {
			op.Operator.Who = by.who
		}
		if err := op.Validate(); err != nil {
			return nil, refuse(http.StatusBadRequest, adminapi.CodeInvalidOp, fmt.Sprintf("operation %d: %v", i, err))
		}
		ops[i] = op
	}
	return ops, nil
}

// writable refuses changes to a local store that has not been compared with
// what the broker remembers: a restored copy must not catch up, write by write.
func (a *admin) writable() *refusal {
	if a.c.marked() && !a.c.accepted.Load() {
		return refuse(http.StatusServiceUnavailable, adminapi.CodeNotReady,
			"the consumer has not compared its store with the broker yet, so nothing is changed; its status says what it waits for")
	}
	return nil
}

// may says whether the caller may do all of the operations. What the store
// knows is looked at once before; a letter that is held in the meantime has a
// record that was opened anew, so the operation is refused by the store.
func (a *admin) may(ctx context.Context, by caller, ops []dedup.Op) *refusal {
	standings := make([]opStanding, len(ops))
	if by.role < AdminApprove {
		if err := a.look(ctx, ops, standings); err != nil {
			return failed(err)
		}
	}
	for i := range ops {
		standings[i].who = by.who
		row := rowOf(&ops[i], &standings[i])
		switch {
		case row == nil:
			return refuse(http.StatusForbidden, adminapi.CodeForbidden, fmt.Sprintf("%s of %s, which is onceward's own, is for nobody", ops[i].Kind, ops[i].Key))
		case by.role < row.role:
			return lacks(by, row.role, row.deed(&ops[i]))
		}
	}
	return nil
}

// look reads the records and letters that a role may hang on.
func (a *admin) look(ctx context.Context, ops []dedup.Op, standings []opStanding) error {
	var keys []dedup.Key
	var of []int // the operation of each key
	for i := range ops {
		if ops[i].Kind == dedup.Reopen {
			keys, of = append(keys, ops[i].Key), append(of, i)
		}
	}
	records, err := dedup.Lookup(ctx, a.c.cfg.Store, keys)
	if err != nil {
		return err
	}
	var ids []string
	for n, i := range of {
		standings[i].record = records[n]
	}
	of = of[:0]
	want := func(i int, id string) {
		if id != "" {
			ids, of = append(ids, id), append(of, i)
		}
	}
	for i := range ops {
		switch ops[i].Kind {
		case dedup.MoveLetter, dedup.SendNoted:
			want(i, ops[i].Letter.Letter.ID)
		case dedup.Reopen:
			want(i, ops[i].Operator.Letter)
			// A run that names no letter has one all the same.
			want(i, deadletter.ID(ops[i].Key, standings[i].record.Opened))
		}
	}
	letters, err := dedup.Letters(ctx, a.c.cfg.Store, ids)
	for n := range letters {
		standings[of[n]].letters = append(standings[of[n]].letters, letters[n])
	}
	return err
}

// summary is what was done, for the log: the first operations in words.
func summary(ops []dedup.Op, answers []dedup.Answer) string {
	const most = 20
	var b strings.Builder
	for i := range ops[:min(len(ops), most)] {
		op := &ops[i]
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, op.Kind)
		if op.Kind == dedup.MoveLetter {
			fmt.Fprintf(&b, " %s to %s", op.Letter.From, op.Letter.To)
		}
		if op.Letter != nil {
			fmt.Fprintf(&b, " %s", quoteBounded(op.Letter.Letter.ID))
		}
		if op.Key.ID != "" {
			fmt.Fprintf(&b, " of %s", op.Key)
		}
		if answers != nil {
			fmt.Fprintf(&b, ": %s", answers[i].Kind)
		}
	}
	if left := len(ops) - most; left > 0 {
		fmt.Fprintf(&b, " and %d more", left)
	}
	return b.String()
}
