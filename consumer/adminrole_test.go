package consumer_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// deed is something that a role may do, or may not.
type deed struct {
	what string
	role consumer.AdminRole // at least; none: nobody
	// does prepares the store and says what is asked for.
	does func(a *adminRig) (method, path string, body any)
}

const nobody = consumer.AdminApprove + 1

func seen(r dedup.Record) dedup.Seen { return dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence} }

// operation is a deed of one operation.
func operation(what string, role consumer.AdminRole, op func(a *adminRig) dedup.Op) deed {
	return deed{what, role, func(a *adminRig) (string, string, any) {
		return http.MethodPost, "/v1/apply", applying(a.t, op(a))
	}}
}

// moving is a move of the letter of a failed record, which stands at from. It
// was taken by job j of rick's where it is sent, or taken is set.
func moving(what string, role consumer.AdminRole, from, to dedup.LetterState, job string, taken string) deed {
	return operation(what, role, func(a *adminRig) dedup.Op {
		a.ended("A-1", dedup.Terminal)
		a.noted("l1", "A-1", 1)
		move := func(from, to dedup.LetterState, job, who string) dedup.Op {
			return dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: job, Who: who}, From: from, To: to}}
		}
		if taken != "" {
			a.do(move(dedup.LetterOpen, dedup.LetterOpen, "j", taken))
		}
		if from != dedup.LetterOpen {
			a.do(move(dedup.LetterOpen, from, "j", "rick"))
		}
		return move(from, to, job, "")
	})
}

// again opens a record for a further run.
func again(what string, role consumer.AdminRole, outcome dedup.Outcome, change func(a *adminRig, o *dedup.OperatorOp)) deed {
	return operation(what, role, func(a *adminRig) dedup.Op {
		r := a.ended("A-1", outcome)
		if outcome != dedup.Success && outcome != dedup.Failure {
			a.noted("l1", "A-1", 1)
			r = a.record("A-1")
		}
		o := &dedup.OperatorOp{Seen: seen(r), Job: "j", LetterRun: r.Run, Fingerprint: r.Fingerprint}
		change(a, o)
		return dedup.Op{Kind: dedup.Reopen, Key: keyOf("A-1"), Operator: o}
	})
}

func asIs(*adminRig, *dedup.OperatorOp) {}

// taken makes the letter of A-1 job j's.
func (a *adminRig) taken() {
	a.do(dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j"}, From: dedup.LetterOpen, To: dedup.LetterOpen}})
}

// hold makes a letter of A-1 one that waits for an approval.
func hold(a *adminRig, id string) {
	a.do(dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: id}, From: dedup.LetterOpen, To: dedup.LetterHeld}})
}

func get(path string) func(*adminRig) (string, string, any) {
	return func(*adminRig) (string, string, any) { return http.MethodGet, path, nil }
}

func post(path string, body any) func(*adminRig) (string, string, any) {
	return func(*adminRig) (string, string, any) { return http.MethodPost, path, body }
}

func deeds() []deed {
	const view, replay, approve = consumer.AdminView, consumer.AdminReplay, consumer.AdminApprove
	const open, sent, resolved, discarded, held, gone = dedup.LetterOpen, dedup.LetterSent, dedup.LetterResolved,
		dedup.LetterDiscarded, dedup.LetterHeld, dedup.LetterGone
	return []deed{
		{"see the consumer", view, get("/v1/consumer")},
		{"see figures", view, get("/v1/stats")},
		{"look records up", view, post("/v1/records", adminapi.RecordsRequest{})},
		{"list records", view, get("/v1/records")},
		{"look letters up", view, post("/v1/letters", adminapi.LettersRequest{})},
		{"list letters", view, get("/v1/letters")},
		{"browse", view, get("/v1/browse?topic=orders")},
		{"inspect", view, post("/v1/inspect", adminapi.InspectRequest{Topics: []adminapi.Text{topic}})},
		{"see pauses", view, get("/v1/pause")},
		{"pause", replay, post("/v1/pause", adminapi.PauseRequest{})},
		{"resume", replay, func(*adminRig) (string, string, any) { return http.MethodDelete, "/v1/pause", adminapi.PauseRequest{} }},
		{"publish to the retry destination", replay, post("/v1/publish", outgoing("orders.billing.retry"))},
		{"publish to the source", replay, post("/v1/publish", outgoing(topic))},
		{"publish a dead letter", nobody, post("/v1/publish", outgoing("orders.billing.dlq"))},
		{"publish elsewhere", nobody, post("/v1/publish", outgoing("payroll"))},
		{"browse elsewhere", nobody, get("/v1/browse?topic=payroll")},
		{"inspect elsewhere", nobody, post("/v1/inspect", adminapi.InspectRequest{Topics: []adminapi.Text{topic, "payroll"}})},
		{"look up another consumer's record", nobody, post("/v1/records", adminapi.RecordsRequest{Keys: []adminapi.Key{{Consumer: "payroll", Scope: "s", ID: "1"}}})},

		operation("note a letter", replay, func(a *adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.NoteLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Reason: "terminal"}}}
		}),
		// Only its consumer has seen it die: the letter would count as one that has
		// been written anew.
		operation("say that the copy of a letter has died", approve, func(a *adminRig) dedup.Op {
			a.noted("l1", "A-1", 1)
			return dedup.Op{Kind: dedup.NoteLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Token: "t"}}}
		}),
		moving("take a letter", replay, open, open, "j", ""),
		operation("take a letter that has expired", approve, func(a *adminRig) dedup.Op {
			a.noted("l1", "A-1", 1)
			return dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: "l1", Token: "t", Job: "j", Expired: true}, From: open, To: open,
			}}
		}),
		moving("give back a letter that rick has taken", replay, open, open, "", "rick"),
		moving("free a letter that somebody else has taken", approve, open, open, "", "ann"),
		moving("free a letter that nobody has taken", approve, open, open, "", ""),
		moving("free a letter that was sent", approve, sent, open, "", ""),
		moving("free a letter that is held", approve, held, open, "", ""),
		moving("take a letter that is held", approve, held, open, "j", ""),
		moving("say that an open letter is sent", replay, open, sent, "j", ""),
		moving("say that a held letter is sent", approve, held, sent, "j", ""),
		moving("resolve a letter", replay, open, resolved, "", ""),
		moving("resolve a held letter", replay, held, resolved, "", ""),
		moving("resolve a letter that is gone", replay, gone, resolved, "", ""),
		moving("hold a letter", replay, open, held, "", ""),
		moving("say that a letter is gone", replay, open, gone, "", ""),
		moving("discard a letter", approve, open, discarded, "", ""),
		moving("discard a held letter", approve, held, discarded, "", ""),
		operation("note that a copy was sent", replay, func(a *adminRig) dedup.Op {
			a.ended("A-1", dedup.Terminal)
			a.noted("l1", "A-1", 1)
			a.taken()
			return dedup.Op{Kind: dedup.SendNoted, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j"}}}
		}),
		operation("note that the copy of a held letter was sent", approve, func(a *adminRig) dedup.Op {
			a.ended("A-1", dedup.Terminal)
			a.noted("l1", "A-1", 1)
			a.taken()
			hold(a, "l1")
			return dedup.Op{Kind: dedup.SendNoted, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j"}}}
		}),

		again("run again what failed", replay, dedup.Terminal, asIs),
		again("run again what succeeded", approve, dedup.Success, asIs),
		again("run again what waits", replay, dedup.Failure, asIs),
		again("run again what is in doubt", approve, dedup.Doubt, asIs),
		again("decide about an effect", approve, dedup.Terminal, func(_ *adminRig, o *dedup.OperatorOp) {
			o.Decide = map[string]dedup.Verdict{"charge": dedup.RunAgain}
		}),
		// Whoever names the letter is refused by the store: nobody holds one that is held.
		again("run again whose letter is held", approve, dedup.Terminal, func(a *adminRig, _ *dedup.OperatorOp) {
			id := deadletter.ID(keyOf("A-1"), a.record("A-1").Opened)
			a.noted(id, "A-1", 1)
			hold(a, id)
		}),
		again("run other content", approve, dedup.Terminal, func(_ *adminRig, o *dedup.OperatorOp) { o.Fingerprint.Sum[0]++ }),
		again("run by the fingerprint of another rule", replay, dedup.Terminal, func(_ *adminRig, o *dedup.OperatorOp) {
			o.Fingerprint = dedup.Fingerprint{Rule: 9, Sum: [32]byte{1}}
		}),

		operation("unlock", approve, func(a *adminRig) dedup.Op {
			a.do(dedup.Op{Kind: dedup.Claim, Key: keyOf("A-1"), Token: dedup.Token{1}, Policy: keptFor, Lease: time.Minute})
			return dedup.Op{Kind: dedup.Unlock, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{Seen: seen(a.record("A-1"))}}
		}),
		operation("delete", approve, func(a *adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Delete, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{Seen: seen(a.ended("A-1", dedup.Success))}}
		}),
		operation("import", approve, func(*adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Import, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}
		}),
		operation("reconcile", approve, func(a *adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Reconcile, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{Seen: seen(a.ended("A-1", dedup.Doubt)), To: dedup.Success}}
		}),
		operation("pause, for which there is an endpoint", nobody, func(*adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Import, Key: dedup.Key{Consumer: "billing", Scope: "onceward.pause", ID: "*"}, Operator: &dedup.OperatorOp{}}
		}),
		operation("import what is onceward's own", nobody, func(*adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Import, Key: dedup.Key{Consumer: "billing", Scope: "onceward.novel", ID: "*"}, Operator: &dedup.OperatorOp{}}
		}),
		operation("import another consumer's record", nobody, func(*adminRig) dedup.Op {
			return dedup.Op{Kind: dedup.Import, Key: dedup.Key{Consumer: "payroll", Scope: "s", ID: "1"}, Operator: &dedup.OperatorOp{}}
		}),
	}
}

func TestEachRoleMayDoWhatTheTableSaysAndNoMore(t *testing.T) {
	for _, d := range deeds() {
		for i, known := range tokens {
			a := newAdminRig(t, tokens...)
			a.token = known.Token
			method, path, body := d.does(a)
			before := a.store.Info().Sequence
			w, f := a.ask(method, path, body)
			switch {
			case known.Role >= d.role:
				if w.Code != http.StatusOK {
					t.Errorf("%s: refused to %v: %+v", d.what, known.Role, f)
					continue
				}
				if path == "/v1/apply" {
					if got := a.lines(w); len(got) != 1 || got[0].Answer.Kind != adminapi.AnswerKind(dedup.Done) {
						t.Errorf("%s: %v did not do it: %s", d.what, known.Role, w.Body)
					}
				}
			case d.role == nobody:
				if w.Code != http.StatusForbidden || (f.Code != adminapi.CodeForbidden && f.Code != adminapi.CodeRole) {
					t.Errorf("%s: %v: %d %+v", d.what, known.Role, w.Code, f)
				}
			default:
				// It is enough to have the role that the answer names.
				if w.Code != http.StatusForbidden || f.Code != adminapi.CodeRole || f.Need != d.role.String() && i > 0 {
					t.Errorf("%s: %v: %d %+v, want that %v is needed", d.what, known.Role, w.Code, f, d.role)
				}
			}
			if w.Code != http.StatusOK && (a.store.Info().Sequence != before || len(a.broker.Messages(topic)) > 0) {
				t.Errorf("%s: refused to %v, and done", d.what, known.Role)
			}
		}
	}
}

// Who is refused has asked for something, and not for an operation of a request.
func TestWhoLacksARoleIsToldWhatTakesIt(t *testing.T) {
	moving := func(to dedup.LetterState) dedup.Op {
		return dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1"}, From: dedup.LetterOpen, To: to}}
	}
	for _, c := range []struct {
		by   consumer.AdminToken
		op   dedup.Op
		says string
	}{
		{tokens[0], moving(dedup.LetterResolved), "changing anything needs the role replay, and some changes the role approve; " + tokens[0].Name + " has the role view"},
		{tokens[1], moving(dedup.LetterDiscarded), `discarding letter "l1" needs the role approve; ` + tokens[1].Name + " has the role replay"},
		{
			tokens[1], dedup.Op{Kind: dedup.Delete, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}},
			"deleting the record of " + keyOf("A-1").String() + " needs the role approve; " + tokens[1].Name + " has the role replay",
		},
	} {
		a := newAdminRig(t, tokens...)
		a.token = c.by.Token
		a.ended("A-1", dedup.Terminal)
		a.noted("l1", "A-1", 1)
		if _, f := a.ask("POST", "/v1/apply", applying(t, c.op)); string(f.Message) != c.says {
			t.Errorf("told %q, want %q", f.Message, c.says)
		}
	}
}

// A request is done whole or not at all.
func TestOneOperationThatIsNotAllowedRefusesTheRequest(t *testing.T) {
	a := newAdminRig(t, tokens...)
	a.token = tokens[1].Token
	a.ended("A-1", dedup.Terminal)
	a.noted("l1", "A-1", 1)
	take := dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j"}, From: dedup.LetterOpen, To: dedup.LetterOpen}}
	remove := dedup.Op{Kind: dedup.Delete, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}
	for _, ops := range [][]dedup.Op{{take, remove}, {remove, take}} {
		if w, f := a.ask("POST", "/v1/apply", applying(t, ops...)); w.Code != http.StatusForbidden || f.Need != "approve" {
			t.Errorf("%d %+v", w.Code, f)
		}
	}
	if l := a.letter("l1"); l.Job != "" {
		t.Errorf("a part was done: %+v", l)
	}
}

func TestTokensOfCopiesAndClaimsAreNotShownToWhoMayNotAct(t *testing.T) {
	a := newAdminRig(t, tokens...)
	a.ended("A-1", dedup.Terminal)
	a.noted("l1", "A-1", 1)
	a.do(dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j", Token: "sesame"}, From: dedup.LetterOpen, To: dedup.LetterOpen}})
	a.broker.Produce("orders.billing.retry", copyWith("dl-replay-token", "sesame"), copyWith("DL-Replay-Token", "sesame"), copyWith("trace", "t1"))
	for _, known := range tokens {
		a.token = known.Token
		shown := known.Role >= consumer.AdminReplay
		for _, q := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/v1/letters", nil},
			{"POST", "/v1/letters", adminapi.LettersRequest{IDs: []adminapi.Text{"l1"}}},
			{"GET", "/v1/records", nil},
			{"POST", "/v1/records", adminapi.RecordsRequest{Keys: []adminapi.Key{adminapi.OfKey(keyOf("A-1"))}}},
			{"GET", "/v1/browse?topic=orders.billing.retry", nil},
		} {
			w, _ := a.ask(q.method, q.path, q.body)
			got := 0
			for _, line := range a.lines(w) {
				if line.Letter != nil && line.Letter.Token == "sesame" || line.Record != nil && line.Record.Token != (adminapi.Token{}) {
					got++
				}
				if line.Message != nil && string(line.Message.Headers[0].Value) == "sesame" {
					got++
				}
				if line.Message != nil && line.Message.Headers[0].Name == "trace" && string(line.Message.Headers[0].Value) != "t1" {
					t.Errorf("a header is missing: %+v", line.Message)
				}
			}
			if (got > 0) != shown {
				t.Errorf("%s %s shows %v %d tokens", q.method, q.path, known.Role, got)
			}
		}
	}
	if held := a.broker.Messages("orders.billing.retry"); string(held[0].Headers[0].Value) != "sesame" {
		t.Errorf("what was shown has changed what is stored: %+v", held[0])
	}
}
