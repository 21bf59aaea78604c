// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/kernel/netns"
	"weir/kernel/sockets"
)

// receiving is a receiver-side control, invisible to senders.
type receiving struct {
	name string
	tune assignLedbatTunables
}

// receivings lists them.
func receivings() []receiving {
	return []receiving{
		{"rledbat", assignLedbatTunables{Target: 60_000}},
		{"scavenger", assignLedbatTunables{Target: uint32(scavengerTarget.Microseconds()), Explore: 1, Tolerant: 1}},
	}
}

// receivingOf finds one by its name.
func receivingOf(name string) (receiving, bool) {
	all := receivings()
	i := slices.IndexFunc(all, func(r receiving) bool { return r.name == name })
	if i < 0 {
		return receiving{}, false
	}
	return all[i], true
}

// Receivings lists the names for [Receive]: rledbat, which is LEDBAT++ (RFC 9840), and scavenger,
// the same with a lower target and additions of cc.
func Receivings() (names []string) {
	for _, r := range receivings() {
		names = append(names, r.name)
	}
	return names
}

// Receiver steers the receive windows of a cgroup's connections until it is closed.
type Receiver struct {
	assigner *assigner
	path     string // of the cgroup
}

// Receive controls the downloads of new connections of the cgroup at path and its descendants. It
// needs no struct_ops.
func Receive(path, name string) (*Receiver, error) {
	chosen, known := receivingOf(name)
	if !known {
		return nil, fault.New(fault.Usage, "there are "+strings.Join(Receivings(), ", "), "%q does not hold downloads%s", name, nearest.Hint(name, Receivings()))
	}
	if err := match.Cgroup.Needs(ebpf.SockOps); err != nil {
		return nil, err
	}
	a, err := assignTo(path, assignCcScope{Receive: chosen.tune})
	if err != nil {
		return nil, err
	}
	return &Receiver{a, path}, nil
}

// Rescue lets another process reset the windows after this one has died. The error is
// [sockets.ErrNoIterator] if the kernel cannot.
func (r *Receiver) Rescue() (sockets.Rescue, error) {
	return sockets.NewRescue(r.path, r.assigner.objects.ReceiveFree, r.assigner.objects.AssignSockops)
}

// Counts returns the counters.
func (r *Receiver) Counts() (Received, error) {
	counts, err := readCounts(r.assigner.objects.AssignCounts, 0)
	return counts.Received, err
}

// CountsID identifies the counters for other processes ([ReadReceived]).
func (r *Receiver) CountsID() (ebpf.MapID, error) {
	info, err := r.assigner.objects.AssignCounts.Info()
	if err != nil {
		return 0, fmt.Errorf("read counts of downloads: %w", err)
	}
	id, _ := info.ID()
	return id, nil
}

// ReadReceived returns the counters of a [Receiver] in any process.
func ReadReceived(id ebpf.MapID) (Received, error) {
	all, err := ebpf.NewMapFromID(id)
	if err != nil {
		return Received{}, programNeeds.Fault("open counts of downloads", err)
	}
	defer func() { _ = all.Close() }()
	counts, err := readCounts(all, 0)
	return counts.Received, err
}

// Close ends it, and gives the windows of connections that stay open back.
func (r *Receiver) Close() error {
	return errors.Join(r.assigner.detach(), r.assigner.freeWindows(), r.assigner.close())
}

// freeWindows resets the windows of open connections after the program was detached.
func (a *assigner) freeWindows() error {
	err := netns.Each(func(ns *netns.Namespace) error { return sockets.VisitTCP(ns, a.objects.ReceiveFree) })
	if errors.Is(err, sockets.ErrNoIterator) {
		return nil
	}
	return err
}
