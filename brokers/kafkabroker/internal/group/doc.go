// Package group is a member of a consumer group: it says which partitions are
// this process's own, when they must be given up, and commits their positions.
// It neither reads messages nor runs handlers.
//
// # Guarantees
//
// A [Claim] is one period of owning a partition. While its owner drains, the
// member goes on claiming it in every round of the group, so that nobody else
// gets it however long the drain takes, and no slow handler holds up the
// others. A position is committed for claims that are held at that moment and
// for no others: one regained later is another claim.
//
// Silence of the coordinator loses nothing by itself; [Member.Leased] says
// whether new work may begin.
//
// The words of Kafka's group protocol stay inside: the protocol that replaces
// it (KIP-848) can take its place behind the same methods.
//
// # Concurrency
//
// All methods may be called concurrently; Run once. Callbacks come from
// goroutines of the member.
//
// # Testing
//
// Each code of the coordinator is injected into each call on an in-process
// broker; mixed groups and restarts run against real brokers.
package group
