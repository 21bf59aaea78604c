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
	IOAM *encapsulationKeys `yaml:"ioam" doc:"IOAM options that this host adds to packets of the scope when they leave through an interface with the role 'egress'."`
}

// sectionKeys holds the section of a policy.
type sectionKeys struct {
	IOAM *nodeKeys `yaml:"ioam" doc:"Settings of this host as a node of an IOAM domain."`
}

type nodeKeys struct {
	yamlfile.Fields `yaml:"-"`
	NodeKeys
	socketKeys
}

// socketKeys holds the keys for sockets of the host, which a scenario does not have.
type socketKeys struct {
	SocketContext bool    `yaml:"socket_context" doc:"Accept W3C trace contexts that applications set through a socket option. Traces then carry these contexts."`
	ContextSchema *number `yaml:"context_schema" doc:"Schema ID of the opaque state that carries such a context, 24 bits. Default: 0x573343. Must be the same in the whole domain."`
}

// NodeKeys describes a node, in the section of a policy and in scenarios.
type NodeKeys struct {
	Node         number                       `yaml:"node,required" doc:"ID of the node, 1 to 0xfffffe."`
	Wide         *number                      `yaml:"wide" doc:"Wide ID of the node, 1 to 0xfffffffffffffe. Default: the ID."`
	Timestamps   string                       `yaml:"timestamps" enum:"posix,ptp,ntp" doc:"Format of timestamps. Default: posix, the format of Linux's own IOAM."`
	Postcards    *number                      `yaml:"postcards" doc:"Maximum number of direct exports per second and CPU. Default: 1000."`
	Flows        *number                      `yaml:"flows" doc:"Maximum number of flows with edge-to-edge options that each end stores, 1 to 1048576. Default: 4096, or 128 per CPU if that is more."`
	Address      string                       `yaml:"address" doc:"IPv6 address of this node: the end of tunnels, and the source of copies that the node returns (loopback)."`
	FlagShare    *number                      `yaml:"flag_share" doc:"Limits packets with the flags Loopback and Active, and returned copies, to 1/N of the rate of the slowest interface. Default: 200. RFC 9322 recommends more than 100."`
	TraceContext bool                         `yaml:"trace_context" doc:"Read the W3C trace context of unencrypted HTTP/1 requests, which links IOAM traces that end here to traces of the application."`
	Interfaces   yamlfile.Map[*interfaceKeys] `yaml:"interfaces" doc:"Devices of the node, by name. Weir does not check packets of unlisted devices."`
	Namespaces   yamlfile.Map[*namespaceKeys] `yaml:"namespaces" doc:"Known IOAM-Namespaces, by number; 0 is always known."`
}

type interfaceKeys struct {
	yamlfile.Fields `yaml:"-"`
	ID              *number  `yaml:"id" doc:"ID of the interface, up to 16 bits, unique in the node. Default: 65535 (unknown)."`
	Wide            *number  `yaml:"wide" doc:"Wide ID of the interface, up to 32 bits. Default: the ID."`
	Roles           []string `yaml:"roles" doc:"Directions in which packets with IOAM may pass the interface: ingress, egress. An interface without a role is a border of the domain and drops these packets."`
	Reserve         bool     `yaml:"reserve" doc:"Lower the IPv6 MTU of the device by the size of the longest options of the scopes, so that path MTU discovery works."`
}

type namespaceKeys struct {
	yamlfile.Fields `yaml:"-"`
	Data            *number `yaml:"data" doc:"Namespace-specific data of traces, 32 bits. Default: not populated."`
	Wide            *number `yaml:"wide" doc:"Wide namespace-specific data of traces, 64 bits. Default: not populated."`
	Schema          *number `yaml:"schema" doc:"Schema ID of the opaque state, up to 24 bits."`
	State           string  `yaml:"state" doc:"Opaque state snapshot, up to 64 octets, padded to a multiple of 4."`
	Remove          bool    `yaml:"remove" doc:"The options of this namespace end at this node, which records, exports and removes them."`
	Loopback        bool    `yaml:"loopback" doc:"Return a copy of each packet with the Loopback flag (RFC 9322). Requires the node's 'address'."`
	Proof           string  `yaml:"proof" doc:"File with the node's part of a proof of transit, written by 'weir ioam proof'."`
	Strict          bool    `yaml:"strict" doc:"Where the options end, drop packets without a valid proof."`
}

type encapsulationKeys struct {
	yamlfile.Fields `yaml:"-"`
	EncapsulationKeys
}

// EncapsulationKeys selects the options and the packets of an encapsulation.
type EncapsulationKeys struct {
	optionKeys
	Options     []*optionKeys `yaml:"options" doc:"List of additional options, in other namespaces or with other fields."`
	Loopback    bool          `yaml:"loopback" doc:"Every node on the path returns a copy of the packet to this node. Requires 'trace: [node]' as the only option and a namespace with 'loopback: true'. Packets that this host forwards also require 'tunnel'."`
	Tunnel      string        `yaml:"tunnel" doc:"IPv6 address of the node where the namespace ends: packets get an outer IPv6 header with this destination. Requires the 'address' of this node."`
	Active      bool          `yaml:"active" doc:"Set the flag Active: the packets are probes, and the node where the namespace ends does not deliver them."`
	Every       string        `yaml:"every" doc:"Fraction of packets that get the options: 100 means one in 100, 3/10 means three in ten. Default: every packet."`
	Probability *float64      `yaml:"probability" doc:"Alternative to 'every': probability that a packet gets the options, 0 to 1."`
	Flows       *float64      `yaml:"flows" doc:"Alternative to 'every': fraction of flows, 0 to 1. All packets of these flows get the options."`
	conditionKeys
}

type optionKeys struct {
	Namespace number   `yaml:"namespace" doc:"IOAM-Namespace of the options. Default: 0."`
	Trace     []string `yaml:"trace" doc:"Pre-allocated trace with these fields: node, interfaces, timestamps, delay, data, queue, checksum, wide_node, wide_interfaces, wide_data, occupancy, state; or a bit mask such as 0xd00000."`
	Nodes     *number  `yaml:"nodes" doc:"Maximum number of nodes in a trace, including this node. Default: 4."`
	Proof     bool     `yaml:"proof" doc:"Add a proof of transit. Requires the key 'proof' of the namespace."`
	Edge      []string `yaml:"edge" doc:"Fields of an edge-to-edge option: sequence (64 bits) or sequence32, timestamps."`
	Export    []string `yaml:"export" doc:"Direct Export option: every node exports these fields of a trace."`
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
