// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/kernel/sysctl"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/iperf"
)

const (
	// defaultControl is the initial congestion control of a namespace's TCP sockets.
	defaultControl = "net.ipv4.tcp_congestion_control"
	// unpacedControl does not pace, and is the only default that the kernel allows in every
	// namespace. Others, including CUBIC, must be in the machine's
	// net.ipv4.tcp_allowed_congestion_control.
	unpacedControl = "reno"
)

// beginUnpaced sets a default without pacing on hosts with connections that would otherwise keep
// the pacing of the machine's default. Their namespaces live for one run, so the setting is not
// restored.
func (e *execution) beginUnpaced(bench *Bench) error {
	for _, host := range lateHosts(bench.Cell, e.options.Generator.Name()) {
		if err := sysctl.Set(bench.Topology.Nodes[host], defaultControl, unpacedControl); err != nil {
			return fmt.Errorf("host %s, from which iperf3 sends: %w", host, err)
		}
		e.outcome.Mechanisms["congestion default"] = unpacedControl + " on hosts from which iperf3 sends"
	}
	return nil
}

// lateHosts returns the hosts from which iperf3 sends under a congestion control that the flow
// names: its connections begin with the host's default and change too late (see package iperf). It
// excludes hosts with a requested default: the scenario sets it, or a TCP flow of the host names no
// congestion control. generator generates the flows that name none.
func lateHosts(cell *scenario.Cell, generator string) (hosts []string) {
	var flows []traffic.Flow
	for _, phase := range cell.Phases {
		for _, f := range phase.Flows {
			if f.Kind != traffic.Datagram {
				flows = append(flows, f)
			}
		}
	}
	for _, node := range cell.Nodes {
		late := slices.ContainsFunc(flows, func(f traffic.Flow) bool {
			from, _ := f.Data()
			return from == node.Name && f.Congestion != "" && cmp.Or(f.Generator, generator) == iperf.Generator{}.Name()
		})
		asked := slices.ContainsFunc(flows, func(f traffic.Flow) bool {
			return f.Congestion == "" && (f.From == node.Name || f.To == node.Name)
		})
		if late && !asked && !setsDefault(node) {
			hosts = append(hosts, node.Name)
		}
	}
	return hosts
}

// setsDefault reports whether the scenario sets the node's default congestion control, written with
// dots or with slashes.
func setsDefault(node scenario.Node) bool {
	for key := range node.Sysctls {
		if strings.ReplaceAll(key, "/", ".") == defaultControl {
			return true
		}
	}
	return false
}
