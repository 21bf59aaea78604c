// SPDX-License-Identifier: Apache-2.0

// Package bus carries the messages of a fleet over NATS, and keeps its lasting state in JetStream
// key-value buckets: the shared limits, the members, and the lease of the leader.
//
// Reports and grants are core NATS messages: a lost one is replaced by the next. All connections
// use TLS and an NKEY, on loopback too. A host's NKEY allows it to publish its own reports and to
// subscribe to its own grants, and nothing else.
//
// Pitfalls: the epoch of a leader is the revision at which it has created its lease, so it rises
// with each leader as long as the JetStream store is kept. Removing the store while hosts run makes
// them reject the next leader until their daemons restart.
package bus
