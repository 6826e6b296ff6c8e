package storetest

import (
	"strings"

	"github.com/onceward/onceward/dedup"
)

// awkward are ids that have broken stores: separators, NUL, invalid UTF-8,
// prefixes of each other, case, the longest.
var awkward = []string{
	"a", "aa", "aaa", "A", "a/", "/a", "a/b", "a:b", "a|b", "a b", " a", "a ", "a\n", "a\x00", "\x00", "\x00\x00", "a\x00b", "\xff", "\xff\xff", "a\xff",
	"\xc3\x28", "\u00e9", "e\u0301", "\u65e5\u672c", "\r\n", "'; DROP TABLE records; --", "*", "a*", "{a}", "%", "%00", "\\", "\"", "null",
	"0", "00", "9007199254740993", strings.Repeat("x", dedup.MaxID), strings.Repeat("x", dedup.MaxID-1),
	strings.Repeat("\xff", dedup.MaxID), strings.Repeat("\x00", dedup.MaxID),
}

// keyChecks are about which keys are the same.
var keyChecks = []check{
	{"key: ids are any bytes, and no two share a record", func(s *session) {
		ops := make([]dedup.Op, len(awkward))
		for i, id := range awkward {
			ops[i] = s.claimOp(id)
		}
		answers := s.apply(ops...)
		for i, a := range answers {
			if a.Kind != dedup.Acquired {
				s.Errorf("id %.20q: answered %s (%v)", awkward[i], a.Kind, a.Err)
				continue
			}
			result := func(op *dedup.Op) { op.Result = []byte(awkward[i]) }
			ops[i] = endOp(held{Answer: a, key: ops[i].Key, token: ops[i].Token}, dedup.Success, result)
		}
		s.apply(ops...)
		found := make(map[string]bool)
		for r, err := range s.store.Scan(s.Context(), s.consumer) {
			if err != nil {
				s.Fatalf("scan: %v", err)
			}
			if string(r.Result) != r.Key.ID || found[r.Key.ID] {
				s.Errorf("id %.20q has the result of %.20q, or comes twice", r.Key.ID, r.Result)
			}
			found[r.Key.ID] = true
		}
		if len(found) != len(awkward) {
			s.Errorf("a scan finds %d of %d records", len(found), len(awkward))
		}
		for _, id := range awkward {
			if r := s.is(s.key(id), dedup.Succeeded); string(r.Result) != id {
				s.Errorf("id %.20q has the result of %.20q", id, r.Result)
			}
		}
	}},
	{"key: where consumer, scope and id end is never in doubt", func(s *session) {
		for _, k := range []dedup.Key{
			{Consumer: "a", Scope: "b", ID: "cd"}, {Consumer: "a", Scope: "bc", ID: "d"}, {Consumer: "ab", Scope: "c", ID: "d"},
			{Consumer: "a", Scope: "b/c", ID: "d"}, {Consumer: "a/b", Scope: "c", ID: "d"}, {Consumer: "a", Scope: "b", ID: "c/d"},
			{Consumer: "a", Scope: "b\x00c", ID: "d"}, {Consumer: "a\x00b", Scope: "c", ID: "d"}, {Consumer: "a", Scope: "b", ID: "c\x00d"},
			{Consumer: "a", Scope: "b", ID: "\x00cd"}, {Consumer: "a", Scope: "b\x00", ID: "cd"}, {Consumer: "a", Scope: "\x00b", ID: "cd"},
			{Consumer: "a", Scope: "b", ID: "c"}, {Consumer: "b", Scope: "a", ID: "c"}, {Consumer: "c", Scope: "b", ID: "a"},
			{Consumer: strings.Repeat("c", dedup.MaxScope), Scope: strings.Repeat("s", dedup.MaxScope), ID: strings.Repeat("i", dedup.MaxID)},
			{Consumer: strings.Repeat("c", dedup.MaxScope), Scope: strings.Repeat("s", dedup.MaxScope), ID: strings.Repeat("i", dedup.MaxID-1)},
		} {
			op := s.claimOp("")
			op.Key = k
			if a := s.do(op); a.Kind != dedup.Acquired {
				s.Errorf("%q: answered %s (%v)", k, a.Kind, a.Err)
			}
			s.is(k, dedup.InProgress)
		}
	}},
	{"key: one consumer's records are not another's", func(s *session) {
		mine := s.claim("k", dedup.Acquired)
		s.end(mine, dedup.Success, dedup.Succeeded)
		s.advance(10)
		s.consumer = "shipping"
		s.claim("k", dedup.Acquired)
		n := 0
		for r := range s.store.Scan(s.Context(), "shipping") {
			if n++; r.Key.Consumer != "shipping" {
				s.Errorf("the scan finds %v", r.Key)
			}
		}
		if n != 1 {
			s.Errorf("the scan finds %d records", n)
		}
		if p, err := s.store.Prefixes(s.Context(), "shipping"); len(p) != 0 || err != nil {
			s.Errorf("prefixes %+v, %v", p, err)
		}
		n = 0
		for range s.store.Scan(s.Context(), "") {
			n++
		}
		if n != 2 {
			s.Errorf("the scan of all finds %d records", n)
		}
	}},
	{"key: fences rise over everything that ends a record", func(s *session) {
		var last uint64
		next := func(id string) held {
			c := s.claim(id, dedup.Acquired)
			if id == "k" {
				if c.Fence <= last {
					s.Fatalf("fence %d after %d", c.Fence, last)
				}
				last = c.Fence
			}
			return c
		}
		for range 3 {
			s.end(next("k"), dedup.Skip, dedup.Absent)
			next("between") // another key's fences are its own
			s.end(next("k"), dedup.Success, dedup.Succeeded)
			s.operate(dedup.Delete, s.key("k"), dedup.Done)
			s.end(next("k"), dedup.Success, dedup.Succeeded)
			s.operate(dedup.Reopen, s.key("k"), dedup.Done)
			s.end(next("k"), dedup.Success, dedup.Succeeded)
			s.pass(windowOver)
			s.swept("with the window over", 1)
			next("k")
			s.pass(leaseOver)
			s.end(next("k"), dedup.Success, dedup.Succeeded)
			s.operate(dedup.Delete, s.key("k"), dedup.Done)
			s.operate(dedup.Import, s.key("k"), dedup.Done)
			if r := s.record(s.key("k")); r.Fence <= last {
				s.Fatalf("import with fence %d after %d", r.Fence, last)
			} else {
				last = r.Fence
			}
			s.operate(dedup.Delete, s.key("k"), dedup.Done)
		}
	}},
}
