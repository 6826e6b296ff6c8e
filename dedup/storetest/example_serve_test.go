package storetest_test

import (
	"fmt"
	"net"

	"github.com/onceward/onceward/dedup/memstore"
	"github.com/onceward/onceward/dedup/storetest"
)

// One process serves, others dial; here both are the same.
func ExampleServe() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := storetest.Serve(listener, memstore.New())
	defer stop()

	store, err := storetest.Dial("tcp", listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Info().Kind, "local:", store.Info().Local)
	// Output: memstore behind a wire local: false
}
