// Package kafkabroker runs onceward on Apache Kafka, 2.4 or newer, over the
// connections of kafka-go.
//
// # Usage
//
// [Connect], and give the result to consumer.Config.Broker. Topics TOPIC are
// read as consumer group CONSUMER; letters go to TOPIC.CONSUMER.dlq, and
// messages that wait for long to TOPIC.CONSUMER.retry, which the same group
// reads. Config.Create makes those two where they are missing.
//
// Who looks at letters with [Broker] needs the rights to read and to describe
// their topic, and none of a group; for the limits that Inspect tells that of
// DescribeConfigs.
//
// # Guarantees
//
// Of a partition exactly the committed records are handed out, in order: no
// transaction marker, none of an aborted transaction, whatever the codec, and
// past what compaction emptied. Time is the broker's where the topic has
// LogAppendTime.
//
// A position is committed only over a contiguous prefix of what was
// acknowledged, and only for partitions that are owned then. Partitions that
// stay with a process go on while others move. Before the first delivery of a
// partition its position is committed, so that "latest" is decided once.
//
// A position that does not fit its log (messages deleted below it, the log
// shorter than it, the topic made again) is reported with its size as a
// [*GapError] through Events.Degraded under "gap TOPIC/PARTITION", and
// [OnGap] says whether the partition is held or goes on.
//
// Every request has a bound. A broker that is stopped, killed or silent delays
// and never wedges; no address is special; new partitions and topics that come
// later are found within Config.WatchInterval.
//
// Memory: about 32 MiB are read ahead in all partitions together, at least
// 64 KiB in each; a delivery that is kept keeps at most 128 KiB with it. A
// deferred one costs some 40 bytes, and is read again when it is due. A browse
// reads 1 MiB ahead, or a batch.
//
// # Concurrency
//
// As [brokers.Source] says. Ack, Defer, Pause and Floors do not wait for the
// broker; Mark does, for two round trips, the first time for four.
//
// # Testing
//
// Plain tests run against an in-process cluster; those with the build tag
// "servers" against the one whose addresses are in KAFKA_BROKERS.
package kafkabroker
