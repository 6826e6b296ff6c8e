// Package cli is the command onceward: what main does, with everything that it
// takes from outside as a [Process], so that tests run it as people do.
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
// is a terminal; elsewhere --yes must be given. Exit codes are [Done], [Failed],
// [Usage], [Nothing] and [Partly]: "status" ends with the last where a letter
// has not succeeded, "apply" where one was not sent, "doctor" where a finding is
// an error. There are no colours.
//
// # JSON
//
// With --json there is one object, or one a line for lists. Absent members are
// empty. Texts are strings; what is no UTF-8 is {"base64":…}. Times are RFC 3339
// in UTC. Control characters are escaped. testdata has one of each.
//
//	dlq groups        a line each: count, reason, error_type, pattern, app_version, first, last, example (dl-id), error
//	dlq list          a line each: a letter: id, state, reason, error, scope, key, run, source, topic, partition, offset, …
//	dlq show          letter, stack, message, record, decision (action, why, approvable), later
//	dlq export        a line each, always JSON: letter, stack, message (broker_key, value, headers; null is none)
//	dlq resolve …     a line each: id, state, done, error
//	replay plan       file, plan: the head of the plan with counts by action
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
