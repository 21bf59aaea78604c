package cc

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/fault"
)

// scope is a cgroup whose new connections get the congestion control.
type scope struct {
	link   link.Link
	counts *ebpf.Map
}

func (s *scope) close() error { return errors.Join(s.link.Close(), s.counts.Close()) }

// Counts says what was done with the connections of the cgroups.
type Counts struct {
	Assigned uint64 `json:"assigned"` // given the congestion control
	NoECN    uint64 `json:"no_ecn"`   // left alone: the peer does not take part in ECN
	Chosen   uint64 `json:"chosen"`   // left alone: the application has chosen a congestion control itself
	Failed   uint64 `json:"failed"`   // refused by the kernel
}

// Attach gives the congestion control to the connections that sockets of the cgroup at path, and of those below it, make or
// accept from now on. It sets it when the handshake is complete, and asks for ECN in the handshake. Programs of others on
// the cgroup stay.
func (i *Installed) Attach(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fault.Wrap(fmt.Errorf("attach to cgroup: %w", err), fault.Usage, "name a folder of the cgroup v2 tree")
	}
	spec, err := loadScope()
	if err != nil {
		return fmt.Errorf("read scope program: %w", err)
	}
	var name [16]byte
	copy(name[:], i.name)
	if err := spec.Variables["scope_control"].Set(name); err != nil {
		return fmt.Errorf("set scope's congestion control: %w", err)
	}
	var objects scopeObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return refused("load scope program", err)
	}
	defer func() { _ = objects.ScopeSockops.Close() }()
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: path, Attach: ebpf.AttachCGroupSockOps, Program: objects.ScopeSockops})
	if err != nil {
		_ = objects.ScopeCounts.Close()
		return refused("attach to cgroup "+path, err)
	}
	i.scopes = append(i.scopes, &scope{attached, objects.ScopeCounts})
	return nil
}

// Counts adds up what the scopes have done.
func (i *Installed) Counts() (Counts, error) {
	var sum Counts
	for _, s := range i.scopes {
		if err := sum.add(s.counts); err != nil {
			return Counts{}, err
		}
	}
	return sum, nil
}

// add adds a scope's counters of all CPUs.
func (c *Counts) add(counts *ebpf.Map) error {
	var cpus []scopeCcScopeCounts
	if err := counts.Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("read scope's counters: %w", err)
	}
	for _, cpu := range cpus {
		c.Assigned += cpu.Assigned
		c.NoECN += cpu.NoEcn
		c.Chosen += cpu.Chosen
		c.Failed += cpu.Failed
	}
	return nil
}
