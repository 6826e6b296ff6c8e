package natsbroker

import (
	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
)

// Delivery is a message as a consumer sees it, for whoever reads letters or waiting
// copies with a client of their own: key, value, headers and first subject of the
// original, out of the envelope that the package describes. The arguments are
// those of a [nats.Msg], a jetstream.Msg or a jetstream.RawStreamMsg.
//
// Of what began with Nats- the original's headers are there, such as its
// Nats-Msg-Id, and the letter's own are not. Publish of this package sends them
// in an envelope once more. Whoever publishes them as headers of NATS gives the
// server orders: a Nats-Msg-Id that it still remembers makes it drop the
// message, and confirm it.
//
// A message without an envelope, or with one that makes no sense, comes as it
// is. Lane, Offset, Time and Handle are not set, so that the delivery cannot be
// settled. It blocks on nothing and shares data with the message.
func Delivery(subject string, header nats.Header, data []byte) *brokers.Delivery {
	d := &brokers.Delivery{Subject: subject}
	unwrap(header, data, d)
	return d
}
