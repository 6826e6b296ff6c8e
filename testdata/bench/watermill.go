package main

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wmkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wmjs "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go/jetstream"
	bolt "go.etcd.io/bbolt"
)

func init() {
	cases["nats-watermill"] = func(m *meter) { router(m, natsSubscriber(m), deduplicator(m, mapRepository())) }
	cases["kafka-watermill"] = func(m *meter) { router(m, kafkaSubscriber()) }
	// The order of the Watermill documentation: the poison queue outermost,
	// then retries, then the deduplicator.
	cases["kafka-watermill-bolt"] = func(m *meter) {
		router(m, kafkaSubscriber(), poisonQueue(m), retry(), deduplicator(m, openRepository()))
	}
}

// router counts a message when all middlewares are through with it, whatever
// the outcome.
func router(m *meter, s message.Subscriber, middlewares ...message.HandlerMiddleware) {
	r, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	must(err)
	var k atomic.Int64
	done := make(chan struct{})
	r.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(x *message.Message) ([]*message.Message, error) {
			m.first()
			out, err := h(x)
			if k.Add(1) == int64(*n) {
				close(done)
			}
			return out, err
		}
	})
	r.AddMiddleware(middlewares...)
	r.AddConsumerHandler("orders", *stream, s, func(x *message.Message) error {
		if x.Metadata[idHeader] == "" {
			return errors.New("no id")
		}
		return nil
	})
	go func() { must(r.Run(ctx)) }()
	<-done
	m.last(*n)
}

// natsSubscriber acknowledges without waiting for the server, the fastest
// that Watermill has.
func natsSubscriber(m *meter) message.Subscriber {
	nc, _ := natsConnect()
	s, err := wmjs.NewSubscriber(wmjs.SubscriberConfig{
		Conn: nc, Logger: watermill.NopLogger{}, AckAsync: true,
		ResourceInitializer: func(_ context.Context, js jetstream.JetStream, _ string) (jetstream.Consumer, func(context.Context, watermill.LoggerAdapter), error) {
			return durable(js, m), nil, nil
		},
	})
	must(err)
	return s
}

func kafkaSubscriber() message.Subscriber {
	c := wmkafka.DefaultSaramaSubscriberConfig()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	s, err := wmkafka.NewSubscriber(wmkafka.SubscriberConfig{
		Brokers: []string{*kafkaAt}, Unmarshaler: wmkafka.DefaultMarshaler{}, ConsumerGroup: freshName(), OverwriteSaramaConfig: c,
	}, watermill.NopLogger{})
	must(err)
	return s
}

// counted counts what is published.
type counted struct {
	message.Publisher
	k *atomic.Int64
}

func (p counted) Publish(topic string, ms ...*message.Message) error {
	p.k.Add(int64(len(ms)))
	return p.Publisher.Publish(topic, ms...)
}

func poisonQueue(m *meter) message.HandlerMiddleware {
	p, err := wmkafka.NewPublisher(wmkafka.PublisherConfig{Brokers: []string{*kafkaAt}, Marshaler: wmkafka.DefaultMarshaler{}}, watermill.NopLogger{})
	must(err)
	q, err := middleware.PoisonQueue(counted{p, &m.dead}, deadTopic)
	must(err)
	return q
}

func retry() message.HandlerMiddleware {
	return middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond, MaxInterval: time.Minute, Multiplier: 2, Logger: watermill.NopLogger{}}.Middleware
}

func mapRepository() middleware.ExpiringKeyRepository {
	r, err := middleware.NewMapExpiringKeyRepository(time.Hour)
	must(err)
	return r
}

func deduplicator(m *meter, r middleware.ExpiringKeyRepository) message.HandlerMiddleware {
	d := &middleware.Deduplicator{
		KeyFactory: middleware.NewMessageHasherFromMetadataField(idHeader), Repository: found{r, &m.duplicates}, Timeout: time.Minute,
	}
	return d.Middleware
}

// found counts the duplicates.
type found struct {
	middleware.ExpiringKeyRepository
	k *atomic.Int64
}

func (r found) IsDuplicate(ctx context.Context, key string) (bool, error) {
	d, err := r.ExpiringKeyRepository.IsDuplicate(ctx, key)
	if d {
		r.k.Add(1)
	}
	return d, err
}

// repository is the durable one that a team would write: look and mark in one
// transaction. It marks before the handler runs, as the interface demands.
type repository struct{ db *bolt.DB }

func openRepository() *repository {
	return &repository{openBolt(filepath.Join(*dir, "repository.db"))}
}

func (r *repository) IsDuplicate(_ context.Context, key string) (dup bool, err error) {
	now := uint64(time.Now().Unix())
	err = r.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(ids)
		if v := b.Get([]byte(key)); v != nil && binary.BigEndian.Uint64(v) > now {
			dup = true
			return nil
		}
		dup = false
		return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, now+3600))
	})
	return dup, err
}
