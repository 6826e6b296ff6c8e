package boltstore

import "time"

// clock is the store's clock: the wall clock as of opening plus what has passed
// since by the monotonic clock, so that steps of the wall clock change nothing
// while the file is open; and never before a time that the file has seen.
type clock struct {
	began time.Time // with its monotonic reading
	first int64     // ns
}

func startClock(seen int64) clock {
	now := time.Now()
	return clock{began: now, first: max(now.UnixNano(), seen)}
}

func (c clock) now() time.Time {
	return time.Unix(0, c.first+int64(time.Since(c.began))).UTC()
}
