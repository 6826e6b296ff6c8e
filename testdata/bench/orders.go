package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// order is one message of the load: 200 bytes of JSON with the id, which is
// also in a header. One in ten repeats one of the 50,000 before it, and the
// messages of one id in a hundred are marked bad by a header.
type order struct {
	id    string
	bad   bool
	value []byte
}

const (
	idHeader  = "order_id"
	badHeader = "bad"
	atHeader  = "seq"
)

// orders calls f with count of them, always the same.
func orders(count int, f func(i int, o order)) {
	r := rand.New(rand.NewPCG(1, 2))
	recent := make([]int, 50000)
	for i := range count {
		of := i
		if i > 0 && r.IntN(10) == 0 {
			of = recent[(i-1-r.IntN(min(i, len(recent))))%len(recent)]
		}
		recent[i%len(recent)] = of
		id := orderID(of)
		f(i, order{id: id, bad: of%100 == 7, value: orderValue(of, id)})
	}
}

// healthy is how many of the first count are not marked bad.
func healthy(count int) (k int) {
	orders(count, func(_ int, o order) {
		if !o.bad {
			k++
		}
	})
	return k
}

// orderID looks like the random ids that people use: no order to profit from.
func orderID(i int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "order %d", i))
	return hex.EncodeToString(h[:16])
}

func orderValue(i int, id string) []byte {
	b := fmt.Appendf(nil, `{"order_id":%q,"seq":%d,"note":"`, id, i)
	for len(b) < 198 {
		b = append(b, 'x')
	}
	return append(b, `"}`...)
}
