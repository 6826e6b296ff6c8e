// Package cli is the command onceward: what main does, with everything that it
// takes from outside as a [Process], so that tests run it as people do. How it
// is used, its JSON and its exit codes are in the documentation of the command;
// testdata has one of each of its outputs in JSON.
//
// # Guarantees
//
// Nothing is changed by groups, list, show, export, plan, status, get, doctor
// and --dry-run; they open a bolt file to read only. Secrets are never shown:
// addresses are written without user and password, and tokens not at all.
// Whatever goes out passes package plain, so that no letter moves a cursor.
//
// A plan lies in one file, and the progress of its application in the store:
// ended by a signal or killed, "apply" is called again.
//
// # Concurrency
//
// [Run] may be called concurrently. Several commands may work on the letters of
// one consumer at once; of two jobs for one letter the second is refused.
//
// # Testing
//
// The tests run the whole command against a NATS server and a Kafka in the
// process, with real consumers.
package cli
