package storetest_test

import (
	"testing"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
	"github.com/onceward/onceward/dedup/storetest"
)

func TestMemstore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) dedup.Store { return memstore.New() },
		Work: func(do func() error) any { return do },
	})
}

func TestMemstoreThroughABatcher(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) dedup.Store { return dedup.NewBatcher(memstore.New(), 0) },
		Work: func(do func() error) any { return do },
	})
}
