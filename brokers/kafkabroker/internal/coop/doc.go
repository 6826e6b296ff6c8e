// Package coop computes who in a consumer group gets which partitions, by the
// rules of Kafka's cooperative-sticky assignor (KIP-429).
//
// # Guarantees
//
// It is pure: no clock, no I/O, no chance, and the same members in any order
// give the same plan. Every partition that somebody subscribes to has exactly
// one place; loads are as even as the subscriptions allow; what moves is the
// least; and nothing is handed out while another member may still hold it.
//
// # Testing
//
// Each of those sentences is a property test.
package coop
