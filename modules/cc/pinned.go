// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/probe"
)

// Pins is the folder of the command line, with one folder per congestion control: control, and
// scope-N with counts-N for each cgroup. Pins of a policy are beside them in their own folder.
const Pins = "/sys/fs/bpf/weir/cc"

// Pin pins the congestion control and its scopes in dir/NAME, so that they survive this process.
// [Remove] ends them. A pin that fails half-way leaves nothing.
func (i *Installed) Pin(dir string) error {
	folder := filepath.Join(dir, i.name)
	if err := bpffs.Safe(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return bpffs.Fault(fmt.Errorf("pin congestion control: %w", err))
	}
	err := i.link.Pin(filepath.Join(folder, "control"))
	for n, s := range i.scopes {
		if err == nil {
			err = s.link.Pin(filepath.Join(folder, fmt.Sprintf("scope-%d", n)))
		}
		if err == nil {
			err = s.objects.AssignCounts.Pin(filepath.Join(folder, fmt.Sprintf("counts-%d", n)))
		}
	}
	if err != nil {
		_ = unpin(folder)
		return bpffs.Fault(fmt.Errorf("pin congestion control: %w", err))
	}
	return nil
}

// unpin removes a folder of pins, scopes first, so that no scope sets a missing control.
func unpin(folder string) error {
	var all []error
	for _, pattern := range []string{"scope-*", "counts-*", "control"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		all = append(all, err)
		for _, path := range paths {
			all = append(all, os.Remove(path))
		}
	}
	return errors.Join(append(all, os.Remove(folder))...)
}

// Remove ends a congestion control that Pin has kept under dir, and waits until the kernel no
// longer lists it. Connections that use it keep it until they close. The error is a Usage fault
// where nothing is pinned under that name.
func Remove(dir, name string) error {
	if err := checkName(name); err != nil { // it becomes part of a path
		return err
	}
	if inForce(dir, name) {
		return fault.New(fault.Usage, "remove it from the policy, or end the policy: weir release", "the active policy uses the congestion control %s", name)
	}
	folder := filepath.Join(dir, name)
	if _, err := os.Stat(filepath.Join(folder, "control")); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Usage, "weir cc list shows installed controls; without --pin a control ends with its command",
			"no congestion control %s is pinned under %s", name, dir)
	}
	if err := unpin(folder); err != nil {
		return fault.Wrap(fmt.Errorf("remove congestion control %s: %w", name, err), fault.Permission, "run it as root")
	}
	_ = os.Remove(dir) // removed with its last entry
	_ = os.Remove(filepath.Dir(dir))
	return waitGone(name, unregisterTime)
}

// Control is a congestion control that the kernel offers.
type Control struct {
	Name       string  `json:"name"`
	Restricted bool    `json:"restricted"`         // choosing it needs CAP_NET_ADMIN
	Pin        string  `json:"pin,omitempty"`      // where weir cc install has pinned it
	InForce    bool    `json:"in_force,omitempty"` // held by the active policy
	Scopes     int     `json:"scopes,omitempty"`   // cgroups that it is pinned for
	Counts     *Counts `json:"counts,omitempty"`   // of these cgroups
}

// List returns the congestion controls of the kernel by name, with the pins under dir. It omits
// kernel modules that are not loaded.
func List(dir string) ([]Control, error) {
	names, err := probe.CongestionControls()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		return nil, fmt.Errorf("list congestion controls: %w", err)
	}
	allowed := strings.Fields(string(content))
	controls := make([]Control, 0, len(names))
	for _, name := range names {
		control := Control{Name: name, Restricted: !slices.Contains(allowed, name)}
		if err := control.readPins(dir); err != nil {
			return nil, err
		}
		controls = append(controls, control)
	}
	return controls, nil
}

func (c *Control) readPins(dir string) error {
	c.InForce = inForce(dir, c.Name)
	folder := filepath.Join(dir, c.Name)
	if !exists(filepath.Join(folder, "control")) {
		return nil // not pinned, or not for this user to see
	}
	c.Pin = folder
	paths, err := filepath.Glob(filepath.Join(folder, "counts-*"))
	if err != nil || len(paths) == 0 {
		return err
	}
	c.Scopes, c.Counts = len(paths), &Counts{}
	for _, path := range paths {
		counts, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return bpffs.Fault(fmt.Errorf("open scope's counters: %w", err))
		}
		read, err := readCounts(counts, 0)
		_ = counts.Close()
		if err != nil {
			return err
		}
		c.Counts.add(read)
	}
	return nil
}
