// Command onceward shows what consumers have left behind, dead letters and
// records, and works it off.
//
//	CGO_ENABLED=0 go install github.com/onceward/onceward/cmd/onceward@latest
//
// Without CGO_ENABLED=0 it is no static file: it links the C library.
//
// # Usage
//
//	onceward dlq groups|list|show|export|resolve|discard|open
//	onceward dlq replay plan|apply|status
//	onceward record get|list|rerun|unlock|delete|export|import
//	onceward pause|resume|doctor|version
//
// Where to look is said by flags or the environment; a flag wins.
//
//	--from   ONCEWARD_FROM    the dead-letter topic, kafka:// or nats://
//	--store  ONCEWARD_STORE   bolt:FILE, of a consumer that does not run
//	--via    ONCEWARD_VIA     URL at which a running consumer serves its Admin;
//	                          token in --token-file or ONCEWARD_TOKEN
//
// Data goes to stdout and talk to stderr. A question is asked only where stdin
// is a terminal; elsewhere --yes must be given. There are no colours. Exit codes:
//
//	0  done
//	1  failed
//	2  wrong flags or arguments; nothing was tried
//	3  nothing matched
//	4  partly done, refused, or found wanting: "status" where a letter has not
//	   succeeded, "apply" where one was not sent, "doctor" where a finding is
//	   an error, "list", "export" and "plan" where an id that was asked for is
//	   not found
//
// # JSON
//
// With --json there is one object, or one a line for lists. Absent members are
// empty. Texts are strings; what is no UTF-8 is {"base64":…}. Times are RFC 3339
// in UTC. Control characters are escaped.
//
//	dlq groups        a line each: count, reason, error_type, pattern, app_version, first, last, example (dl-id), error
//	dlq list          a line each: a letter: id, state, reason, error, scope, key, run, source, topic, partition, offset, …
//	dlq show          letter, stack, message, record, decision (action, why, approvable), later
//	dlq export        a line each, always JSON: letter, stack, message (broker_key, value, headers; null is none)
//	dlq resolve …     a line each: id, state, done, error
//	replay plan       file, plan: the head of the plan with counts by action; why (action, why, count, example), not_found
//	replay apply      job, letters, counts, answered, failed_again, why (did, why, count, example), stopped
//	replay status     job, letters, counts by outcome; with --each a line each: id, scope, key, outcome, state, error
//	record get        a line for each scope: record, letters
//	record list       a line each: a record; export likewise, always JSON
//	record unlock …   scope, key, did, done, state, run
//	record rerun      as replay plan
//	record import     read, imported, known, expired, stopped
//	pause, resume     consumer, scope, paused, changed
//	doctor            findings (level, what, consequence, mend), not_checked
//	version           version, revision, go
package main

import (
	"os"
	"runtime/debug"
	"syscall"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/internal/interrupt"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// It runs beside the consumer, on a machine that was not chosen for it, and
		// mostly waits for others: memory is dearer than time.
		debug.SetGCPercent(40)
	}
	// What is under way is ended in order; a second signal does not wait for it.
	ctx := interrupt.Context(func(s os.Signal) {
		number, _ := s.(syscall.Signal)
		os.Exit(128 + int(number)) // as a shell tells of it
	})
	os.Exit(cli.Run(ctx, &cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Terminal: isTerminal(os.Stdin),
	}))
}

// isTerminal says that somebody sits there who can answer.
func isTerminal(f *os.File) bool {
	i, err := f.Stat()
	if err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(i, null)
}
