package boltstore

import (
	"bytes"
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// letter advances the letter that op speaks of.
func (b *batch) letter(op *dedup.Op, x *held) (dedup.AnswerKind, error) {
	id := op.Letter.Letter.ID
	old, err := b.note(id)
	if err != nil {
		return 0, err
	}
	l, kind := dedup.StepLetter(old, &x.rec, op, b.now)
	if kind != dedup.Done || l == old {
		return kind, nil
	}
	row := letterRow(&l)
	if err := b.putSealed(bucketLetters, tableLetters, []byte(id), row); err != nil {
		return 0, err
	}
	if old.Token != l.Token {
		if err := b.token(&old, false); err != nil {
			return 0, err
		}
		if err := b.token(&l, true); err != nil {
			return 0, err
		}
	}
	if old.State != dedup.LetterNone && old.State.Unfinished() == l.State.Unfinished() {
		return kind, nil
	}
	return kind, b.put(bucketLetterKeys, tableLetterKeys, letterKey(x.h, id), appendBool(nil, l.State.Unfinished()))
}

// note reads a letter; State is LetterNone where there is none.
func (b *batch) note(id string) (dedup.Letter, error) {
	row := b.top.Bucket(bucketLetters).Get([]byte(id))
	if row == nil {
		return dedup.Letter{}, nil
	}
	l, _, err := parseLetter([]byte(id), row)
	if err != nil {
		return l, b.s.damaged(fmt.Sprintf("letter %q: %v", id, err))
	}
	return l, nil
}

func (b *batch) token(l *dedup.Letter, set bool) error {
	if l.Token == "" {
		return nil
	}
	if set {
		return b.put(bucketTokens, tableTokens, []byte(l.Token), []byte(l.ID))
	}
	return b.put(bucketTokens, tableTokens, []byte(l.Token), nil)
}

// admits says whether a letter admits a claim of key with this replay token.
func (b *batch) admits(token string, key dedup.Key) (bool, error) {
	row := b.top.Bucket(bucketTokens).Get([]byte(token))
	if row == nil {
		return false, nil
	}
	id, _, err := unseal(row, tableTokens, []byte(token))
	if err != nil {
		return false, b.s.damaged(fmt.Sprintf("replay token: %v", err))
	}
	l, err := b.note(string(id))
	return err == nil && l.Admits(token, key), err
}

// unfinished counts the letters of a key that are open, sent or held. Letters
// of another key with the same hash count too: that only keeps a record longer.
func (b *batch) unfinished(h hash) (n int, err error) {
	err = b.lettersOf(h, func(_ []byte, unfinished bool) {
		if unfinished {
			n++
		}
	})
	return n, err
}

// forget removes the letters of a key that is swept; all of them have ended.
func (b *batch) forget(h hash) error {
	var ids []string
	if err := b.lettersOf(h, func(id []byte, unfinished bool) {
		if !unfinished {
			ids = append(ids, string(id))
		}
	}); err != nil {
		return err
	}
	for _, id := range ids {
		l, err := b.note(id)
		if err != nil {
			return err
		}
		if err := b.token(&l, false); err != nil {
			return err
		}
		if err := b.put(bucketLetterKeys, tableLetterKeys, letterKey(h, id), nil); err != nil {
			return err
		}
		if err := b.put(bucketLetters, tableLetters, []byte(id), nil); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) lettersOf(h hash, each func(id []byte, unfinished bool)) error {
	from := letterKey(h, "")
	c := b.top.Bucket(bucketLetterKeys).Cursor()
	for k, row := c.Seek(from); k != nil && bytes.HasPrefix(k, from); k, row = c.Next() {
		body, _, err := unseal(row, tableLetterKeys, k)
		if err != nil || len(body) != 1 {
			return b.s.damaged(fmt.Sprintf("letter %q: %v", k[len(from):], errRow))
		}
		each(k[len(from):], body[0] != 0)
	}
	return nil
}
