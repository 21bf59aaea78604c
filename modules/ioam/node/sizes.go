// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"weir/core/module"
)

const (
	// defaultFlows is the default number of flows at each end, or flowsProcessor per CPU if that
	// is more: the kernel keeps up to 128 free entries of a map per CPU.
	defaultFlows   = 4096
	flowsProcessor = 128
	MaxFlows       = 1 << 20
	// fewRecords is the size of the ring buffer in bytes of a node that only exports postcards:
	// twice the maximum burst of 128 CPUs. maps.h has the size for nodes at which options end.
	fewRecords = 256 << 10
)

// sizes holds the minimum capacities of maps that depend on the policy.
type sizes struct {
	scopes         int
	encapsulations int // distinct ones
	numbers        int // of encapsulations: an update uses free ones
	sent, received int // flows
	contexts       int // flows with a stored trace context
	proofs         int // windows of proofs
	records        uint32
}

// sizesOf returns the capacities for states together.
func sizesOf(want module.State, d Config, states ...module.State) sizes {
	s := sizes{scopes: module.CapacityFor(append(states, want)...), sent: 1, received: 1, contexts: 1, proofs: 1, records: fewRecords}
	flows := d.Node.flows()
	if d.Removes() {
		s.received, s.records = flows, 0
	}
	for _, n := range d.Namespaces {
		if n.ProofFile != "" {
			s.proofs += 2
		}
	}
	if d.Node.TraceContext {
		s.contexts = flows
	}
	different := map[string]bool{}
	for _, b := range want.Scopes {
		templates, err := d.templates(b.Scope)
		if err != nil {
			continue // Ready reports it
		}
		for _, t := range templates {
			different[t.key()] = true
			if t.encap.Flows != 0 {
				s.sent = flows
			}
		}
	}
	s.encapsulations = len(different)
	s.numbers = 2 * max(s.encapsulations, 1)
	return s
}

// beside adds space for numbers in use: after a crash, those of two states.
func (s *sizes) beside(used []uint32) {
	slices.Sort(used)
	s.numbers = min(max(s.numbers, len(slices.Compact(used))+s.encapsulations), 2*MaxEncapsulations)
}

func (n Node) flows() int {
	if n.Flows != 0 {
		return int(n.Flows)
	}
	return max(defaultFlows, flowsProcessor*ebpf.MustPossibleCPU())
}

// key identifies an encapsulation.
func (t *template) key() string { return fmt.Sprint(t.encap, t.octets) }

// set sets the capacities of the objects to load.
func (s sizes) set(spec *ebpf.CollectionSpec) {
	for name, entries := range map[string]int{
		ioamMapIoamScopes: s.scopes, ioamMapIoamScopeCounted: s.scopes,
		ioamMapIoamEncaps: s.numbers + 1, ioamMapIoamTemplates: s.numbers + 1,
		ioamMapIoamEdgesSent: s.sent, ioamMapIoamEdgesReceived: s.received,
		ioamMapIoamContexts: max(s.contexts, 1), ioamMapIoamProofs: max(s.proofs, 1),
	} {
		spec.Maps[name].MaxEntries = uint32(entries)
	}
	if s.records != 0 {
		spec.Maps[ioamMapIoamRecords].MaxEntries = s.records
	}
}
