// Package adminapi is what a running consumer and an operator's command say to
// each other: the JSON of the API that consumer.Admin serves under /v1/, and
// its conversions from and to the types of dedup and brokers.
//
// # Usage
//
// Package consumer lists the endpoints, with their parameters and roles. What
// is asked in a body, and what is answered:
//
//	GET          /v1/consumer                  Consumer
//	GET          /v1/stats                     Stats
//	GET          /v1/records, /v1/letters      a line for each
//	POST         /v1/records  RecordsRequest   a line for each key
//	POST         /v1/letters  LettersRequest   a line for each id
//	POST         /v1/apply    ApplyRequest     a line with an answer for each
//	GET          /v1/browse                    lines of lanes and their messages
//	POST         /v1/inspect  InspectRequest   InspectResponse
//	POST         /v1/publish  PublishRequest   PublishResponse
//	GET          /v1/pause                     PausesResponse
//	POST, DELETE /v1/pause    PauseRequest     PauseResponse
//
// Every answer has the header Onceward-Api. Lines are [Line], one JSON object
// each, and the last one says that they are complete, or why not: without it
// they were cut. An error is [Failure], here and as a line.
//
// # Guarantees
//
// What is converted comes back as it was: bytes that are no UTF-8 in any text
// (as {"base64":…}), nil and empty bytes, times to the nanosecond (RFC 3339 in
// UTC), durations (as Go writes them). Decoding refuses duplicate names and
// wrong UTF-8, and of a request names that it does not know, by which the client
// would be misunderstood; of an answer it leaves them out. It never panics.
//
// # Concurrency
//
// Everything is a function of its arguments.
//
// # Testing
//
// testdata holds each type as JSON; what is read there must be read for as
// long as [Version] stays.
package adminapi
