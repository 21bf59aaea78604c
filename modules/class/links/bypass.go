// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/rtnl"
)

// ownFast is the program of Weir's fast path; the module offload warns of links itself.
const ownFast = "fast_forward"

// Lint warns of visible traffic that bypasses the queues of links.
func (Module) Lint(p *policy.Policy) []string {
	all, _ := bypasses(module.State{Host: p.Host}) // Ready reports unreadable devices
	return all
}

// bypasses describes, for each active link, foreign traffic that bypasses its classes: XDP
// programs, which may send through any device, filters that redirect packets before the queue, and
// filters in a NIC. A software filter that redirects to the link uses its qdisc.
func bypasses(s module.State) (notes []string, err error) {
	links := treatments(s)
	if len(links) == 0 {
		return nil, nil
	}
	known, err := devices()
	if err != nil {
		return nil, err
	}
	programs := foreignXDP(known)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		link, there := known[name]
		if !there {
			continue
		}
		if programs != "" {
			notes = append(notes, fmt.Sprintf("links.%s: cannot determine the traffic of %s that bypasses its queue: XDP packets bypass the classes", name, programs))
		}
		taken, err := redirectedAway(link)
		byNIC, more := forwardedByNIC(link, known)
		if err := errors.Join(err, more); err != nil {
			return nil, err
		}
		for _, around := range append(taken, byNIC...) {
			notes = append(notes, fmt.Sprintf("links.%s: %s bypass its classes", name, around))
		}
	}
	return notes, nil
}

// of are the notes of one link, without its name.
func of(name string, notes []string) (all []string) {
	for _, note := range notes {
		if text, is := strings.CutPrefix(note, "links."+name+": "); is {
			all = append(all, text)
		}
	}
	return all
}

// foreignXDP names the XDP programs of others at any device: "XDP program 7 (balance) at eth1".
func foreignXDP(known map[string]rtnl.Device) string {
	const named = 4
	var all []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		id := known[name].XDP
		if id == 0 {
			continue
		}
		switch program := bpffs.ProgramName(ebpf.ProgramID(id)); program {
		case ownFast:
		case "":
			all = append(all, fmt.Sprintf("XDP program %d at %s", id, name))
		default:
			all = append(all, fmt.Sprintf("XDP program %d (%s) at %s", id, program, name))
		}
	}
	if more := len(all) - named; more > 0 {
		all = append(all[:named], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, " or ")
}

// redirectedAway returns the filters that redirect packets from a link before its queue.
func redirectedAway(link rtnl.Device) (all []string, err error) {
	found, err := redirections(link.Name)
	for _, r := range found {
		if r.Hook == device.Egress && !r.Copy {
			all = append(all, fmt.Sprintf("packets redirected by its egress filter %s of priority %d", r.Kind, r.Priority))
		}
	}
	return all, err
}

// forwardedByNIC returns the filters by which a NIC forwards packets to a link without the kernel.
func forwardedByNIC(link rtnl.Device, known map[string]rtnl.Device) (all []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name].Kind != "device" {
			continue // made by the kernel
		}
		found, err := redirections(name)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.Hardware && !r.Received && r.To == link.Index {
				all = append(all, fmt.Sprintf("packets forwarded to it in the NIC by filter %s of priority %d at %s", r.Kind, r.Priority, name))
			}
		}
	}
	return all, nil
}

// redirections returns the redirections of a device; none for a removed one.
func redirections(name string) ([]device.Redirection, error) {
	found, err := device.Redirections(nil, name)
	if errors.Is(err, device.ErrGone) {
		return nil, nil
	}
	return found, err
}
