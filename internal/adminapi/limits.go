package adminapi

import "time"

// Version of the API: the first part of its paths. A change that an older peer
// would misread raises it; a new optional field does not: an older server refuses
// it by name, an older client leaves it out.
const Version = 1

// VersionHeader is the name of the response header that says which version answers,
// and by which a client knows that it speaks with a consumer at all.
const VersionHeader = "Onceward-Api"

// WhoHeader is the name of the request header in which a client on the same
// machine says for whom it acts. Where tokens are asked for, it is ignored.
const WhoHeader = "Onceward-Who"

// Limits of one request. Clients split what is more.
const (
	MaxKeys     = 1_000    // keys, ids or topics that are asked for
	MaxOps      = 1_000    // operations, a few of which move one letter
	MaxMessages = 1_000    // messages to publish
	MaxBody     = 16 << 20 // bytes, enough for messages of 10 MiB in base64
	MaxWho      = 128      // bytes of a name in WhoHeader
)

// MaxLine bounds the bytes of one line of an answer. A record with sixteen
// effects of the largest outcome each has 1.5 MiB, a message of 20 MiB in base64
// the rest.
const MaxLine = 32 << 20

// Alive is how often a stream says that it is still being worked on when it has
// nothing else to say, in a line of its own; a client that hears nothing for
// several times as long gives up.
const Alive = 10 * time.Second
