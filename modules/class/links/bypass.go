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

// ownFast is the program of Weir's fast path, whose room warns of links by itself.
const ownFast = "fast_forward"

// Doubts warns of what others send around the queues of links, as far as this host can see it.
func (Module) Lint(p *policy.Policy) []string {
	all, _ := bypasses(module.State{Host: p.Host}) // Ready tells why devices cannot be read
	return all
}

// bypasses says of each link in force what of others passes none of its classes: XDP programs,
// which may send by any device and say nothing of it, filters that take packets away before they
// wait, and those that a NIC follows by itself. A filter of the kernel's that redirects to the link
// sends through its qdisc.
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
			notes = append(notes, fmt.Sprintf("links.%s: cannot say what %s sends around its queue: what XDP sends passes no class", name, programs))
		}
		taken, err := redirectedAway(link)
		byNIC, more := forwardedByNIC(link, known)
		if err := errors.Join(err, more); err != nil {
			return nil, err
		}
		for _, around := range append(taken, byNIC...) {
			notes = append(notes, fmt.Sprintf("links.%s: %s does not wait in its classes", name, around))
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

// redirectedAway says which filters take packets from a link before they wait there.
func redirectedAway(link rtnl.Device) (all []string, err error) {
	found, err := redirections(link.Name)
	for _, r := range found {
		if r.Hook == device.Egress && !r.Copy {
			all = append(all, fmt.Sprintf("what its filter %s of priority %d at egress redirects", r.Kind, r.Priority))
		}
	}
	return all, err
}

// forwardedByNIC says which filters have a NIC send by a link what the kernel does not see.
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
				all = append(all, fmt.Sprintf("what filter %s of priority %d at %s has the NIC send by it", r.Kind, r.Priority, name))
			}
		}
	}
	return all, nil
}

// redirections of a device; none of one that has gone meanwhile.
func redirections(name string) ([]device.Redirection, error) {
	found, err := device.Redirections(nil, name)
	if errors.Is(err, device.ErrGone) {
		return nil, nil
	}
	return found, err
}
