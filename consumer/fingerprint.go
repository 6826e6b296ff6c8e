package consumer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/dedup"
)

// ruleNumber turns the name of a rule into the number that is stored beside a
// digest. The top bit keeps it apart from numbers given by hand.
func ruleNumber(name string) uint32 {
	if name == "" {
		return dedup.PayloadRule
	}
	sum := sha256.Sum256([]byte("fingerprint rule\x00" + name))
	return 1<<31 | uint32(sum[0])<<23 | uint32(sum[1])<<15 | uint32(sum[2])<<7 | uint32(sum[3])>>1
}

// fingerprint is what must be equal when the key is equal.
func (r *Route) fingerprint(d *Delivery) (dedup.Fingerprint, error) {
	if r.Fingerprint.Sum == nil {
		return dedup.Fingerprint{Sum: sha256.Sum256(d.Value), Rule: dedup.PayloadRule}, nil
	}
	sum, err := r.Fingerprint.Sum(d)
	return dedup.Fingerprint{Sum: sum, Rule: r.fingerprintRule}, err
}

// Fields is a digest of some fields of a JSON payload, given by paths as for
// [Field]: of their names and their values in canonical form (RFC 8785: members
// sorted, no spaces, strings in their shortest form), so that another order of
// fields or other spaces are the same content. Numbers are compared by their
// text, since 9007199254740993 and 9007199254740992 are the same number to RFC
// 8785: 10 and 10.0 differ.
//
// A field that is missing counts as missing, which differs from null; all of
// them missing is an error. At most 32 fields.
func Fields(names ...string) Digest {
	g := Digest{Rule: "fields/1(" + strings.Join(names, ", ") + ")"}
	paths := make([]path, len(names))
	for i, name := range names {
		p, err := parsePath(name)
		if err != nil {
			g.wrong = fmt.Sprintf("is Fields with %s, whose path %v", quoteBounded(name), err)
			return g
		}
		for _, other := range paths[:i] {
			if other.text == name {
				g.wrong = fmt.Sprintf("is Fields with %s twice", quoteBounded(name))
				return g
			}
		}
		paths[i] = p
	}
	if len(names) == 0 || len(names) > maxFields {
		g.wrong = fmt.Sprintf("is Fields of %d fields, which must be 1 to %d", len(names), maxFields)
		return g
	}
	g.fields = paths
	g.Sum = func(d *Delivery) ([32]byte, error) { return sumFields(d, paths) }
	return g
}

// Canonical form of RFC 8785, but for numbers.
var canonicalOptions = json.JoinOptions(
	jsonOptions,
	jsontext.ReorderRawObjects(true),
	jsontext.PreserveRawStrings(false),
	jsontext.CanonicalizeRawInts(false),
	jsontext.CanonicalizeRawFloats(false),
)

// scratch is what a canonical form is gathered in.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

func sumFields(d *Delivery, paths []path) (sum [32]byte, err error) {
	var room [maxFields][]byte
	found := room[:len(paths)]
	if err := d.find(paths, found); err != nil {
		return sum, err
	}
	pooled := scratch.Get().(*[]byte)
	text := (*pooled)[:0]
	defer func() {
		if cap(text) <= 64<<10 {
			*pooled = text[:0]
			scratch.Put(pooled)
		}
	}()
	missing := 0
	text = append(text, "fields/1"...)
	for i, raw := range found {
		// A name cannot hold a line end in this form, and neither can a value:
		// what follows which name is never ambiguous.
		text = append(text, '\n')
		if text, err = jsontext.AppendQuote(text, paths[i].text); err != nil {
			return sum, err
		}
		if raw == nil {
			missing++
			continue
		}
		text = append(text, ':')
		if text, err = jsontext.AppendFormat(text, raw, canonicalOptions); err != nil {
			return sum, jsonFault(err)
		}
	}
	if missing == len(paths) {
		return sum, errors.New("all of " + pathList(paths) + " are missing; there are: " + fieldNames(d.Value))
	}
	return sha256.Sum256(text), nil
}

func pathList(paths []path) string {
	texts := make([]string, len(paths))
	for i := range paths {
		texts[i] = quoteBounded(paths[i].text)
	}
	return boundText(strings.Join(texts, ", "), 512)
}
