package storetest

import (
	"fmt"
	"slices"

	"github.com/onceward/onceward/dedup"
)

// readChecks are about Lookup, Letters, Scan and Prefixes.
var readChecks = []check{
	{"read: lookups answer in order, with what is absent among them", func(s *session) {
		s.claim("b", dedup.Acquired)
		s.end(s.claim("a", dedup.Acquired), dedup.Success, dedup.Succeeded)
		records, err := s.store.Lookup(s.Context(), []dedup.Key{s.key("a"), s.key("x"), s.key("b"), s.key("a")})
		if err != nil || len(records) != 4 {
			s.Fatalf("%d records, %v", len(records), err)
		}
		for i, want := range []dedup.State{dedup.Succeeded, dedup.Absent, dedup.InProgress, dedup.Succeeded} {
			if records[i].State != want {
				s.Errorf("record %d is %s, want %s", i, records[i].State, want)
			}
		}
		if records[1].Key != s.key("x") {
			s.Errorf("an absent record without its key: %+v", records[1])
		}
		if none, err := s.store.Lookup(s.Context(), nil); len(none) != 0 || err != nil {
			s.Errorf("no keys: %v, %v", none, err)
		}
		letters, err := s.store.Letters(s.Context(), []string{"x", "y"})
		if err != nil || len(letters) != 2 || letters[0].State != dedup.LetterNone || letters[1].ID != "y" {
			s.Errorf("letters that are not there: %+v, %v", letters, err)
		}
	}},
	{"read: reading makes no record", func(s *session) {
		s.is(s.key("k"), dedup.Absent)
		for r := range s.store.Scan(s.Context(), "") {
			s.Errorf("there is %v", r.Key)
		}
	}},
	{"read: a scan goes beside writes and shows what stays exactly once", func(s *session) {
		const n = 1000
		ops := make([]dedup.Op, n)
		for i := range ops {
			ops[i] = s.claimOp(fmt.Sprint("stays ", i))
		}
		answers := s.apply(ops...)
		seen := make(map[string]int)
		for r, err := range s.store.Scan(s.Context(), s.consumer) {
			if err != nil {
				s.Fatalf("scan: %v", err)
			}
			if seen[r.Key.ID]++; len(seen)%100 == 1 && len(seen) < n {
				// A scan that held up writers would never come back from here.
				i := len(seen)
				s.claim(fmt.Sprint("comes ", i), dedup.Acquired)
				s.do(endOp(held{Answer: answers[i], key: ops[i].Key, token: ops[i].Token}, dedup.Success))
				s.end(s.claim(fmt.Sprint("goes ", i), dedup.Acquired), dedup.Skip, dedup.Absent)
			}
		}
		for i := range n {
			if got := seen[fmt.Sprint("stays ", i)]; got != 1 {
				s.Errorf("record %d was shown %d times", i, got)
			}
		}
	}},
	{"read: a scan may stop early", func(s *session) {
		for i := range 10 {
			s.claim(fmt.Sprint(i), dedup.Acquired)
			s.note(fmt.Sprint("letter ", i), held{key: s.key(fmt.Sprint(i))})
		}
		for range s.store.Scan(s.Context(), "") {
			break
		}
		for range s.store.ScanLetters(s.Context(), "") {
			break
		}
		s.claim("after", dedup.Acquired)
	}},
	{"read: a scan shows lapsed claims as lapsed", func(s *session) {
		s.claim("lapsed", dedup.Acquired)
		s.pass(leaseOver)
		s.claim("live", dedup.Acquired)
		for r := range s.store.Scan(s.Context(), s.consumer) {
			if r.Live != (r.Key.ID == "live") {
				s.Errorf("%s: live %v", r.Key.ID, r.Live)
			}
		}
	}},
	{"read: letters are scanned by consumer", func(s *session) {
		for i := range 5 {
			s.note(fmt.Sprint("letter ", i), held{key: s.key(fmt.Sprint(i))})
		}
		s.keyless("keyless")
		s.note("other", held{key: dedup.Key{Consumer: "shipping", Scope: "s", ID: "1"}})
		ids := func(consumer string) (ids []string) {
			for l, err := range s.store.ScanLetters(s.Context(), consumer) {
				if err != nil {
					s.Fatalf("scan: %v", err)
				}
				ids = append(ids, l.ID)
			}
			slices.Sort(ids)
			return ids
		}
		if got := fmt.Sprint(ids(s.consumer)); got != "[keyless letter 0 letter 1 letter 2 letter 3 letter 4]" {
			s.Errorf("letters %s", got)
		}
		if got := fmt.Sprint(ids("")); got != "[keyless letter 0 letter 1 letter 2 letter 3 letter 4 other]" {
			s.Errorf("letters %s", got)
		}
	}},
	{"read: a prefix never goes back", func(s *session) {
		key := dedup.Key{Consumer: s.consumer}
		to := func(source string, partition int32, offset int64) dedup.Op {
			return dedup.Op{Kind: dedup.Advance, Key: key, Position: dedup.Position{Source: source, Partition: partition, Offset: offset}}
		}
		s.apply(to("orders@1", 0, 5), to("orders@1", 1, 7), to("orders@1", 0, 9), to("orders@1", 0, 3), to("orders@2", 0, 1))
		s.apply(to("orders@1", 1, 6))
		prefixes, err := s.store.Prefixes(s.Context(), s.consumer)
		if err != nil {
			s.Fatalf("prefixes: %v", err)
		}
		slices.SortFunc(prefixes, func(a, b dedup.Position) int {
			return slices.Compare([]string{a.Source, fmt.Sprint(a.Partition)}, []string{b.Source, fmt.Sprint(b.Partition)})
		})
		if got := fmt.Sprint(prefixes); got != "[{orders@1 0 9} {orders@1 1 7} {orders@2 0 1}]" {
			s.Errorf("prefixes %s", got)
		}
	}},
	{"read: the sequence rises with every write, the identity stays", func(s *session) {
		before := s.store.Info()
		c := s.claim("k", dedup.Acquired)
		claimed := s.store.Info()
		s.end(c, dedup.Success, dedup.Succeeded)
		ended := s.store.Info()
		if claimed.Sequence <= before.Sequence || ended.Sequence <= claimed.Sequence {
			s.Errorf("sequence %d, %d, %d", before.Sequence, claimed.Sequence, ended.Sequence)
		}
		if before.ID == "" || ended.ID != before.ID || before.Kind == "" || ended.Unconfirmed {
			s.Errorf("info %+v, then %+v", before, ended)
		}
		if ended.Records > 1 || ended.Full < 0 || ended.Full > 1 {
			s.Errorf("info %+v", ended)
		}
	}},
}
