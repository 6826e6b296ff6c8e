package deadletter

// The names of a letter's own headers: lower-case, single-valued, text, times
// in RFC 3339 UTC. A header without a value is left out.
const (
	hVersion     = "dl-version"
	hID          = "dl-id"
	hConsumer    = "dl-consumer"
	hReason      = "dl-reason"
	hError       = "dl-error"
	hErrorType   = "dl-error-type"
	hStack       = "dl-stack"
	hFailures    = "dl-failures"
	hCrashes     = "dl-crashes"
	hFirstFailed = "dl-first-failed"
	hLastFailed  = "dl-last-failed"
	hScope       = "dl-scope"
	hKey         = "dl-key"
	hRun         = "dl-run"
	hFingerprint = "dl-fingerprint"
	hTopic       = "dl-source-topic"     // Kafka
	hPartition   = "dl-source-partition" // Kafka
	hOffset      = "dl-source-offset"    // Kafka
	hStream      = "dl-source-stream"    // JetStream
	hSubject     = "dl-source-subject"   // JetStream
	hSequence    = "dl-source-sequence"  // JetStream
	hIdentity    = "dl-source-identity"  // which life of the topic or stream
	hTime        = "dl-source-time"
	hAppVersion  = "dl-app-version"
	hTraceparent = "dl-traceparent"
	hReplayJob   = "dl-replay-job"
	hReplayCount = "dl-replay-count"
	hReplayToken = "dl-replay-token" //nolint:gosec // a name, no credential; of a copy that is sent back, never of a letter
	hPointer     = "dl-pointer"      // what a pointer letter leaves out: value, headers, key
	hSHA256      = "dl-payload-sha256"
	hSize        = "dl-payload-size"
)

// names are all of them, for those who read.
var names = [...]string{
	hVersion, hID, hConsumer, hReason, hError, hErrorType, hStack, hFailures, hCrashes, hFirstFailed, hLastFailed,
	hScope, hKey, hRun, hFingerprint, hTopic, hPartition, hOffset, hStream, hSubject, hSequence, hIdentity, hTime,
	hAppVersion, hTraceparent, hReplayJob, hReplayCount, hPointer, hSHA256, hSize,
}
