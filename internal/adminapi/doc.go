// Package adminapi is what a running consumer and an operator's command say to
// each other: the JSON of the API that consumer.Admin serves under /v1/, and
// its conversions from and to the types of dedup and brokers.
//
// # Usage
//
//	GET    /v1/consumer   what the consumer is and how it is set up: [Consumer]
//	GET    /v1/stats      how many letters wait, and what repeats have cost: [Stats]
//	POST   /v1/records    {"keys":[…]}: a line with a record for each
//	GET    /v1/records    ?scope= &state= &completed_after= &completed_before= &limit=: a line for each
//	POST   /v1/letters    {"ids":[…]}: a line with a letter for each
//	GET    /v1/letters    ?state= &limit=: a line for each
//	POST   /v1/apply      {"ops":[…]}: a line with an answer for each
//	GET    /v1/browse     ?topic= &since= &offset=PARTITION:OFFSET: lines of lanes and their messages
//	POST   /v1/inspect    {"topics":[…]}: {"topics":[…]}
//	POST   /v1/publish    {"messages":[…]}: {"errors":[…]}, null for what is stored
//	GET    /v1/pause      {"pauses":[…]}
//	POST   /v1/pause      {"scope":…,"why":…}: {"changed":…}; DELETE likewise lifts it
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
