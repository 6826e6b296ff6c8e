package consumer

import (
	"fmt"
	"net/http"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// AdminRole is what a token allows; each one includes those before it.
type AdminRole uint8

// The roles.
const (
	// AdminView reads everything, payloads too, but no tokens of copies and
	// claims, by which one could act.
	AdminView AdminRole = iota + 1
	// AdminReplay sends letters back, which opens records of what has failed for a
	// further run, resolves them, and pauses.
	AdminReplay
	// AdminApprove decides what a guard is there for: it discards letters, frees
	// those that are held or another job's, runs again what has succeeded, what is in
	// doubt, what is held, what may have been done and forgotten, and what has other content under
	// its key, decides about effects, and unlocks, deletes, imports and reconciles
	// records.
	AdminApprove
)

var roleNames = [...]string{"none", "view", "replay", "approve"}

func (r AdminRole) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "invalid"
}

// ParseAdminRole reads the name of a role.
//
// Errors: one that says which there are.
func ParseAdminRole(name string) (AdminRole, error) {
	for r := AdminView; r <= AdminApprove; r++ {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role is %s, want view, replay or approve", quoteBounded(name))
}

// opStanding is what the store knew of an operation's record and letters when it
// was asked for; the role that it takes may hang on that.
type opStanding struct {
	record  dedup.Record   // of Reopen
	letters []dedup.Letter // that the operation is about
	who     string         // asks
}

// opRole is a row of the table of who may do which operation.
type opRole struct {
	kind dedup.Kind
	what string                                 // one asks for, with %s for the letter or the key
	is   func(op *dedup.Op, s *opStanding) bool // nil: always
	role AdminRole
}

// opRoles: the first row that fits counts.
var opRoles = []opRole{
	{dedup.NoteLetter, "saying that the copy of letter %s has died", func(op *dedup.Op, _ *opStanding) bool { return op.Letter.Letter.Token != "" }, AdminApprove},
	{dedup.NoteLetter, "noting letter %s", nil, AdminReplay},

	{dedup.MoveLetter, "discarding letter %s", movesTo(dedup.LetterDiscarded), AdminApprove},
	{dedup.MoveLetter, "sending letter %s, which is older than the window,", func(op *dedup.Op, _ *opStanding) bool { return op.Letter.Letter.Expired }, AdminApprove},
	{dedup.MoveLetter, "taking letter %s for a job", func(op *dedup.Op, _ *opStanding) bool {
		return op.Letter.From == dedup.LetterOpen && op.Letter.To == dedup.LetterOpen && op.Letter.Letter.Job != ""
	}, AdminReplay},
	{dedup.MoveLetter, "giving letter %s back", func(op *dedup.Op, s *opStanding) bool {
		return op.Letter.From == dedup.LetterOpen && op.Letter.To == dedup.LetterOpen && len(s.letters) == 1 && s.letters[0].Who == s.who
	}, AdminReplay},
	{dedup.MoveLetter, "freeing letter %s, which is held or somebody else's,", movesTo(dedup.LetterOpen), AdminApprove},
	{dedup.MoveLetter, "sending letter %s, which is held,", func(op *dedup.Op, _ *opStanding) bool {
		return op.Letter.From == dedup.LetterHeld && op.Letter.To == dedup.LetterSent
	}, AdminApprove},
	{dedup.MoveLetter, "changing letter %s", nil, AdminReplay},

	{dedup.SendNoted, "sending letter %s, which is held,", letterHeld, AdminApprove},
	{dedup.SendNoted, "noting that a copy of letter %s was sent", nil, AdminReplay},

	{dedup.Reopen, "running %s again, which is in doubt,", func(op *dedup.Op, s *opStanding) bool {
		return op.Operator.Seen.State == dedup.InDoubt || s.record.State == dedup.InDoubt
	}, AdminApprove},
	{dedup.Reopen, "running %s again, which has succeeded,", func(op *dedup.Op, s *opStanding) bool {
		return op.Operator.Seen.State == dedup.Succeeded || s.record.State == dedup.Succeeded
	}, AdminApprove},
	{dedup.Reopen, "deciding about effects of %s", func(op *dedup.Op, _ *opStanding) bool { return len(op.Operator.Decide) > 0 }, AdminApprove},
	{dedup.Reopen, "running %s again, whose letter is held,", letterHeld, AdminApprove},
	{dedup.Reopen, "running %s with other content", func(op *dedup.Op, s *opStanding) bool {
		return s.record.Fingerprint.Differs(op.Operator.Fingerprint)
	}, AdminApprove},
	{dedup.Reopen, "running %s again", nil, AdminReplay},

	{dedup.Import, "importing the record of %s", nil, AdminApprove},
	{dedup.Delete, "deleting the record of %s", nil, AdminApprove},
	{dedup.Unlock, "unlocking the record of %s", nil, AdminApprove},
	{dedup.Reconcile, "reconciling the record of %s", nil, AdminApprove},
}

func movesTo(state dedup.LetterState) func(*dedup.Op, *opStanding) bool {
	return func(op *dedup.Op, _ *opStanding) bool { return op.Letter.To == state }
}

func letterHeld(_ *dedup.Op, s *opStanding) bool {
	for i := range s.letters {
		if s.letters[i].State == dedup.LetterHeld {
			return true
		}
	}
	return false
}

// rowOf is the row for a valid operation; nil for a record of onceward's own that
// is no letter's: pauses have an endpoint, which knows the scopes that there are.
func rowOf(op *dedup.Op, s *opStanding) *opRole {
	if dedup.ReservedScope(op.Key.Scope) && !op.Key.OfLetter() {
		return nil
	}
	for i := range opRoles {
		if row := &opRoles[i]; row.kind == op.Kind && (row.is == nil || row.is(op, s)) {
			return row
		}
	}
	return nil
}

// deed is what an operation does, in words.
func (r *opRole) deed(op *dedup.Op) string {
	about := op.Key.String()
	if op.Letter != nil {
		about = quoteBounded(op.Letter.Letter.ID)
	}
	return fmt.Sprintf(r.what, about)
}

// lacks says which role would have been enough.
func lacks(c caller, need AdminRole, what string) *refusal {
	besides := ""
	if need < AdminApprove {
		besides = ", and some changes the role " + AdminApprove.String()
	}
	r := refuse(http.StatusForbidden, adminapi.CodeRole,
		fmt.Sprintf("%s needs the role %s%s; %s has the role %s", what, need, besides, c.who, c.role))
	r.fault.Need = need.String()
	return r
}
