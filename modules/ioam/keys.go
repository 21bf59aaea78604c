// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"strconv"
	"strings"

	"weir/core/policy"
	"weir/internal/yamlfile"
	"weir/modules/ioam/node"
)

const key = node.Name

// scopeKeys holds the keys of a scope for IOAM.
type scopeKeys struct {
	IOAM *encapsulationKeys `yaml:"ioam" doc:"IOAM options for its packets that leave by an interface with the role egress."`
}

// sectionKeys holds the section of a policy.
type sectionKeys struct {
	IOAM *nodeKeys `yaml:"ioam" doc:"This host as a node of an IOAM domain."`
}

type nodeKeys struct {
	yamlfile.Fields `yaml:"-"`
	NodeKeys
	socketKeys
}

// socketKeys holds the keys for sockets of the host, which a scenario does not have.
type socketKeys struct {
	SocketContext bool    `yaml:"socket_context" doc:"Accept W3C trace contexts from applications by a socket option; traces carry them."`
	ContextSchema *number `yaml:"context_schema" doc:"Schema id of opaque state with such a context, 24 bits; default 0x573343. The same in the whole domain."`
}

// NodeKeys describes a node, in the section of a policy and in scenarios.
type NodeKeys struct {
	Node         number                       `yaml:"node,required" doc:"Id of the node, 1 to 0xfffffe."`
	Wide         *number                      `yaml:"wide" doc:"Wide id, 1 to 0xfffffffffffffe; default: the id."`
	Timestamps   string                       `yaml:"timestamps" enum:"posix,ptp,ntp" doc:"Format of times; default posix, as in Linux."`
	Postcards    *number                      `yaml:"postcards" doc:"Maximum of direct exports per second and CPU; default 1000."`
	Flows        *number                      `yaml:"flows" doc:"Flows with edge-to-edge options stored at each end, 1 to 1048576; default 4096, or 128 per CPU if that is more."`
	Address      string                       `yaml:"address" doc:"This node's IPv6 address, for tunnel ends and for packets that it sends back (loopback)."`
	FlagShare    *number                      `yaml:"flag_share" doc:"Packets with the flags Loopback and Active, and copies sent back, may take 1/N of the slowest interface; default 200. RFC 9322 recommends more than 100."`
	TraceContext bool                         `yaml:"trace_context" doc:"Read the W3C trace context of HTTP/1 requests in clear text, which joins traces that end here to the application's."`
	Interfaces   yamlfile.Map[*interfaceKeys] `yaml:"interfaces" doc:"Devices of the node, by name. Unlisted devices stay unchecked."`
	Namespaces   yamlfile.Map[*namespaceKeys] `yaml:"namespaces" doc:"Known IOAM-Namespaces, by number; 0 is always known."`
}

type interfaceKeys struct {
	yamlfile.Fields `yaml:"-"`
	ID              *number  `yaml:"id" doc:"Id of the interface, up to 16 bits, unique in the node; default 65535, which means unknown."`
	Wide            *number  `yaml:"wide" doc:"Wide id, up to 32 bits; default: the id."`
	Roles           []string `yaml:"roles" doc:"Allowed directions of packets with IOAM: ingress, egress. Without a role the interface is the border of the domain and drops them."`
	Reserve         bool     `yaml:"reserve" doc:"Lower the device's IPv6 MTU by the size of the scopes' options, so that path MTU discovery works."`
}

type namespaceKeys struct {
	yamlfile.Fields `yaml:"-"`
	Data            *number `yaml:"data" doc:"Namespace-specific data of traces, 32 bits; default not populated."`
	Wide            *number `yaml:"wide" doc:"Wide namespace-specific data, 64 bits; default not populated."`
	Schema          *number `yaml:"schema" doc:"Schema id of the opaque state, up to 24 bits."`
	State           string  `yaml:"state" doc:"Opaque state snapshot, up to 64 octets, padded to a multiple of 4."`
	Remove          bool    `yaml:"remove" doc:"Its options end here: they are recorded, exported, and removed from received packets."`
	Loopback        bool    `yaml:"loopback" doc:"Send back a copy of packets with the loopback flag (RFC 9322). The node needs an address."`
	Proof           string  `yaml:"proof" doc:"File with the node's part of a proof of transit, made by weir ioam proof."`
	Strict          bool    `yaml:"strict" doc:"At the end of its options, drop packets without a valid proof."`
}

type encapsulationKeys struct {
	yamlfile.Fields `yaml:"-"`
	EncapsulationKeys
}

// EncapsulationKeys selects the options and the packets of an encapsulation.
type EncapsulationKeys struct {
	optionKeys
	Options     []*optionKeys `yaml:"options" doc:"More options, in other namespaces or of other fields."`
	Loopback    bool          `yaml:"loopback" doc:"Every node on the path returns a copy to this one. Requires trace: [node] alone, in a namespace with loopback, and packets of this host."`
	Tunnel      string        `yaml:"tunnel" doc:"Add an outer IPv6 header to this address: that of the node where the namespace ends. This node needs an address."`
	Active      bool          `yaml:"active" doc:"Its packets are probes: they end where the namespace ends, and are not delivered."`
	Every       string        `yaml:"every" doc:"Which packets: 100 for one of 100, 3/10 for three of ten; default every packet."`
	Probability *float64      `yaml:"probability" doc:"Or: the probability of each packet, 0 to 1."`
	Flows       *float64      `yaml:"flows" doc:"Or: all packets of a share of the flows, 0 to 1."`
	conditionKeys
}

type optionKeys struct {
	Namespace number   `yaml:"namespace" doc:"IOAM-Namespace of the options; default 0."`
	Trace     []string `yaml:"trace" doc:"A pre-allocated trace of these fields: node, interfaces, timestamps, delay, data, queue, checksum, wide_node, wide_interfaces, wide_data, occupancy, state, or bits as in 0xd00000."`
	Nodes     *number  `yaml:"nodes" doc:"Capacity of a trace in nodes, including this one; default 4."`
	Proof     bool     `yaml:"proof" doc:"A proof of transit. The namespace needs a proof."`
	Edge      []string `yaml:"edge" doc:"Edge to edge: sequence or sequence32, timestamps."`
	Export    []string `yaml:"export" doc:"Direct export of these fields of a trace by every node."`
}

// number is a whole number, decimal or hexadecimal as in 0x1f.
type number uint64

// UnmarshalText parses the number.
func (n *number) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number: write it as 31 or 0x1f", text)
	}
	*n = number(v)
	return nil
}

func grammar() policy.Grammar {
	return policy.Grammar{Module: node.Name, Scope: scopeKeys{}, Section: sectionKeys{}, Treats: []string{key}, Read: read, Warn: warn}
}

// or returns the number, or a default without one.
func (n *number) or(otherwise uint64) uint64 {
	if n == nil {
		return otherwise
	}
	return uint64(*n)
}
