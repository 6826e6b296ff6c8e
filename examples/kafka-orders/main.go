// Kafka-orders is a consumer as one would deploy it: it books orders from a
// Kafka topic, each once, in a file of its own.
//
//	kafka-orders [flags]          consume
//	kafka-orders produce [flags]  send orders, for trying it out
//
// This folder is what differs between brokers. What any such program needs
// besides (flags, signals, health, exit statuses) is in examples/internal/service,
// the handler in examples/internal/billing.
//
// Every flag may be given in the environment instead: --sasl-user is
// KAFKA_ORDERS_SASL_USER. A flag wins.
//
// # Signals
//
// The first SIGTERM or SIGINT stops receiving; handlers may finish for --drain,
// what they have done is recorded, and their positions are committed. A second
// one ends the process at once, as kill -9 would: nothing is lost by that
// either, but handlers that were running run again.
//
// # Exit status
//
//	0    stopped in order
//	1    could not start, or cannot go on without a person; the last log line says why
//	2    wrong flags
//	130  ended at once by a second signal
//
// # Health, on --listen
//
//	/livez   200 while it works; 503: restart it
//	/readyz  200 once it has joined and its file is open
//	/status  what it says of itself, in JSON: what is degraded, left to do and done
//	/v1/     for the operator's command: onceward --via http://127.0.0.1:8080
//
// Without tokens /v1/ serves whoever comes from this machine's own loopback
// address, all of it: "kubectl port-forward" does, another pod does not. With
// --admin-tokens, or ONCEWARD_ADMIN_TOKENS=NAME:ROLE:TOKEN,…, it serves those who
// have one of them, from anywhere; put TLS before it then.
//
// One process per file: a second one with a file of its own would repeat what
// the first has done, and refuses to start. Deploy it with one replica and
// without overlap (Kubernetes: StatefulSet, or strategy Recreate), its file on a
// volume, and --instance set to a name that stays: then a restart moves nothing.
package main

import (
	"context"

	"github.com/onceward/onceward/examples/internal/service"
)

func main() {
	service.Main("kafka-orders", consume, map[string]func(context.Context, *service.Process) error{"produce": produce})
}
